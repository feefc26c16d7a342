//! Settings that learners were tuned to, by world: the files of `presets/`.

use crate::simulate::World;

/// The settings of the learners of one world.
macro_rules! tuned {
    ($world:literal, $algorithm:expr, $($name:literal)*) => {
        match $algorithm {
            $($name => {
                Some(include_str!(concat!("../../presets/", $world, "-", $name, ".toml")))
            })*
            _ => None,
        }
    };
}

/// The settings that a learner was tuned to on a world, as TOML; empty where nobody did. With an
/// extraction other than its usual one a learner may have settings of its own.
pub fn preset(world: World, algorithm: &str, extraction: Option<&str>) -> &'static str {
    let own = extraction.and_then(|extraction| tuned(world, &format!("{algorithm}-{extraction}")));
    own.or_else(|| tuned(world, algorithm)).unwrap_or_default()
}

fn tuned(world: World, algorithm: &str) -> Option<&'static str> {
    match world {
        World::Pinwheel | World::PinwheelShortcut => tuned!(
            "pinwheel",
            algorithm,
            "atlas" "cmd1" "cmd2" "mqe" "tmd" "qrl" "crl" "gcbc" "gcivl" "gciql" "hiql" "ddpg" "c-learning"
            "crl-nce" "cmd1-awr" "mqe-ddpg-bc" "qrl-ddpg-bc" "crl-awr" "tmd-awr" "gciql-awr" "ddpg-awr"
            "c-learning-awr"
        ),
        World::Roads => tuned!(
            "roads",
            algorithm,
            "atlas" "cmd1" "cmd2" "mqe" "tmd" "qrl" "crl" "gcbc" "gcivl" "gciql" "hiql" "ddpg" "c-learning"
        ),
        World::Maze(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms;
    use crate::run::RunConfig;

    #[test]
    fn every_preset_is_a_config_and_another_kind_begins_anew() {
        let worlds = [World::Pinwheel, World::Roads];
        let pairs = worlds.map(|world| algorithms::Config::NAMES.map(|name| (world, name)));
        for (world, name) in pairs.into_iter().flatten() {
            let text = preset(world, name, None);
            let config = RunConfig::parse(text, &[]).unwrap();
            assert_eq!((config.algorithm.name(), config.data.world()), (name, Some(world)));
            if algorithms::Config::named(name).unwrap().extraction_mut().is_none() {
                continue;
            }
            let other = RunConfig::parse(text, &["algorithm.extraction.name=awr".into()]).unwrap();
            assert!(other.to_toml().unwrap().contains("name = \"awr\""));
        }
        let maze = "pointmaze-medium-navigate".parse().unwrap();
        assert_eq!(preset(maze, "cmd1", None), "");
        let usual = preset(World::Pinwheel, "crl", Some("ddpg-bc"));
        assert_eq!(usual, preset(World::Pinwheel, "crl", None));
        assert_ne!(usual, preset(World::Pinwheel, "crl", Some("awr")));
    }
}

//! Settings that learners were tuned to, by world: the files of `presets/`.

use toml::Table;

use super::config::{DataConfig, RunConfig};
use crate::algorithms;
use crate::error::{Error, Result};
use crate::simulate::{Body, World};
use crate::spelling::nearest;

/// Forms of learners that have a name and settings of their own: the name, the learner, and the setting
/// that makes the form where nothing was tuned. The defaults of `cmd1` and `cmd2` are the paper's.
const FORMS: [(&str, &str, Option<&str>); 3] = [
    ("crl-nce", "crl", Some("algorithm.contrast=nce")),
    ("cmd1-paper", "cmd1", None),
    ("cmd2-paper", "cmd2", None),
];

/// All names of learners, and of forms of them.
pub fn known_learners() -> impl Iterator<Item = &'static str> {
    algorithms::Config::NAMES.into_iter().chain(FORMS.map(|(name, ..)| name))
}

/// Refuses a name that no learner and no form of one has.
///
/// # Errors
/// There is none; the nearest name is asked for.
pub(super) fn check_learner(name: &str) -> Result<()> {
    let known: Vec<&str> = known_learners().collect();
    if known.contains(&name) {
        return Ok(());
    }
    Err(Error::input(format!("unknown learner `{name}`")).hint(nearest(name, &known)))
}

/// The learner that is called `name` and the setting that its form asks for.
pub(super) fn form(name: &str) -> (&str, Option<&'static str>) {
    let found = FORMS.iter().find(|(form, ..)| *form == name);
    found.map_or((name, None), |&(_, learner, setting)| (learner, setting))
}

/// The config that `key=value` settings ask for: over the settings tuned to the world and the learner,
/// or form of a learner, that they name where there are such, else over the defaults.
///
/// # Errors
/// As [`RunConfig::parse`].
pub fn tuned(settings: &[String]) -> Result<RunConfig> {
    RunConfig::parse(beneath(&RunConfig::table(settings)?), &spelled_out(settings)?)
}

/// The settings with the learner and the setting of each form in place of its name.
///
/// # Errors
/// A setting that is not `key=value`; a learner that is unknown.
pub fn spelled_out(settings: &[String]) -> Result<Vec<String>> {
    let mut plain = Vec::new();
    for setting in settings {
        let table = RunConfig::table(std::slice::from_ref(setting))?;
        match text(&table, &["algorithm", "name"]) {
            Some(name) => {
                check_learner(name)?;
                let (learner, made) = form(name);
                plain.push(format!("algorithm.name=\"{learner}\""));
                plain.extend(made.map(str::to_owned));
            }
            None => plain.push(setting.clone()),
        }
    }
    Ok(plain)
}

/// The text at a path of keys.
fn text<'t>(table: &'t Table, path: &[&str]) -> Option<&'t str> {
    let mut at = table.get(path[0])?;
    for key in &path[1..] {
        at = at.get(key)?;
    }
    at.as_str()
}

/// The preset that settings begin from.
fn beneath(asked: &Table) -> &'static str {
    let text = |path: &[&str]| text(asked, path);
    let source = text(&["data", "source"]).map(str::to_owned);
    let source = source.unwrap_or_else(|| DataConfig::default().source);
    let Ok(world) = source.parse::<World>() else { return "" };
    let learner = text(&["algorithm", "name"]).unwrap_or(algorithms::Config::DEFAULT);
    let extraction = text(&["algorithm", "extraction", "name"]);
    // CRL by its other contrast was tuned under a name of its own.
    let variant = text(&["algorithm", "contrast"]).map(|contrast| format!("{learner}-{contrast}"));
    let names = variant.iter().map(String::as_str).chain([learner, form(learner).0]);
    let mut found = names.map(|name| preset(world, name, extraction));
    found.find(|preset| !preset.is_empty()).unwrap_or_default()
}

/// The settings of the learners of one world.
macro_rules! of_world {
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
    let own = extraction.and_then(|extraction| of(world, &format!("{algorithm}-{extraction}")));
    own.or_else(|| of(world, algorithm)).unwrap_or_default()
}

fn of(world: World, algorithm: &str) -> Option<&'static str> {
    // The preset's critic is one of states, which DDPG+BC cannot descend: the paper's form can.
    let algorithm = if algorithm == "cmd2-ddpg-bc" { "cmd2-paper" } else { algorithm };
    match world {
        World::Pinwheel | World::PinwheelShortcut => of_world!(
            "pinwheel",
            algorithm,
            "atlas" "cmd1" "cmd2" "mqe" "tmd" "qrl" "crl" "gcbc" "gcivl" "gciql" "hiql" "ddpg" "c-learning"
            "crl-nce" "cmd1-paper" "cmd2-paper" "cmd1-awr" "cmd1-paper-awr" "mqe-awr" "qrl-ddpg-bc" "crl-awr"
            "tmd-awr" "gciql-awr" "ddpg-awr" "c-learning-awr"
        ),
        World::Roads => of_world!(
            "roads",
            algorithm,
            "atlas" "cmd1" "cmd2" "mqe" "tmd" "qrl" "crl" "gcbc" "gcivl" "gciql" "hiql" "ddpg" "c-learning"
            "cmd1-paper" "cmd2-paper"
        ),
        World::Maze(course) => match course.body {
            Body::Ant => of_world!("antmaze", algorithm, "atlas"),
            Body::Point => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_learner_finds_its_preset() {
        let parsed = |name: &str, extraction| {
            RunConfig::parse(preset(World::Pinwheel, name, extraction), &[]).unwrap()
        };
        let resolved = |settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
            tuned(&[&["data.source=pinwheel".to_owned()], &settings[..]].concat()).unwrap()
        };
        for name in ["algorithm.name=\"cmd2\"", "algorithm.name = 'cmd2'", "algorithm.name=cmd2"] {
            assert_eq!(resolved(&[name]), parsed("cmd2", None), "{name}");
        }
        assert_eq!(resolved(&[]), parsed(algorithms::Config::DEFAULT, None));
        let crl = ["algorithm.name=crl", "algorithm.extraction.name=awr"];
        assert_eq!(resolved(&crl), parsed("crl", Some("awr")));
        let nce = resolved(&["algorithm.name=crl", "algorithm.contrast=nce"]);
        assert_eq!(nce.train, parsed("crl-nce", None).train);
        assert_eq!(resolved(&["algorithm.name=crl-nce"]), nce);
    }

    #[test]
    fn the_papers_forms_have_names_of_their_own() {
        for (name, learner) in [("cmd1-paper", "cmd1"), ("cmd2-paper", "cmd2")] {
            let named = |world: &str, name: &str| {
                tuned(&[format!("data.source={world}"), format!("algorithm.name={name}")]).unwrap()
            };
            for world in ["pinwheel", "roads"] {
                let paper = named(world, name);
                assert_eq!(paper.algorithm.name(), learner);
                let text = paper.to_toml().unwrap();
                assert!(text.contains("bound_weight = 0.0"), "{text}");
                assert!(text.contains("critic = \"auto\""), "{text}");
                assert_ne!(paper, named(world, learner));
            }
            // Where nothing was tuned, the learner's defaults are the paper's.
            let maze = "pointmaze-medium-navigate";
            assert_eq!(named(maze, name), named(maze, learner));
        }
        let asked = ["data.source=pinwheel", "algorithm.name=cmd2"].map(str::to_owned);
        let descended = [&asked[..], &["algorithm.extraction.name=ddpg-bc".into()]].concat();
        assert!(tuned(&descended).unwrap().to_toml().unwrap().contains("critic = \"auto\""));
    }

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
        let ant = tuned(&["data.source=antmaze-large-stitch".to_owned()]).unwrap();
        assert_eq!(ant.algorithm.name(), "atlas");
        assert_eq!(
            (&*ant.data.source, &*ant.data.policy_goal),
            ("antmaze-large-stitch", &[0, 1][..])
        );
        assert!(ant.to_toml().unwrap().contains("horizon = 10"));
        let usual = preset(World::Pinwheel, "crl", Some("ddpg-bc"));
        assert_eq!(usual, preset(World::Pinwheel, "crl", None));
        assert_ne!(usual, preset(World::Pinwheel, "crl", Some("awr")));
    }
}

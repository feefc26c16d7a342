//! Every form of every operation.

use isochrone::data::sampler::{Column, GoalMix, Layout, Offsets, Rows, Waypoints};
use isochrone::ops::*;

use super::operations::{Case, case};

pub fn pairwise() -> Vec<Case> {
    let mut all = Vec::new();
    for (components, maxima, squares) in [
        (1, 8, 8),
        (2, 3, 3),
        (8, 16, 16),
        (9, 16, 13),
        (1, 0, 16),
        (3, 10, 0),
        (1, 24, 0),
        (1, 20, 20),
        (2, 20, 17),
    ] {
        let shape = Mrn { components, maxima, squares };
        let (width, name) = (shape.width(), format!("mrn {components} {maxima} {squares}"));
        all.push(case(&name, &[width, width], &[], move |p, x, _| p.mrn(shape, x[0], x[1])));
        all.push(case(format!("{name} by row"), &[width, width], &[], move |p, x, _| {
            p.mrn_by_row(shape, x[0], x[1])
        }));
    }
    let shape = Iqe { groups: 3, size: 8 };
    all.push(case("iqe", &[24, 24], &[(1, 1)], move |p, x, w| p.iqe(shape, w[0], x[0], x[1])));
    all.push(case("iqe by row", &[24, 24], &[(1, 1)], move |p, x, w| {
        p.iqe_by_row(shape, w[0], x[0], x[1])
    }));
    for head in [
        DifferenceHead::PqeLh(PqeLh { groups: 3, size: 4 }),
        DifferenceHead::WideNorm(WideNorm { latent: 12, components: 2, size: 3 }),
        DifferenceHead::DeepNorm(DeepNorm { latent: 12, layers: 3, units: 8 }),
    ] {
        for by_row in [false, true] {
            let shapes = [(1, head.raw()), (1, head.free())];
            let count = if head.free() > 0 { 2 } else { 1 };
            all.push(case(
                format!("{head:?} {by_row}"),
                &[12, 12],
                &shapes[..count],
                move |p, x, w| p.difference(head, w, (x[0], x[1]), by_row),
            ));
        }
    }
    for directions in [
        Directions::Symmetric,
        Directions::Forward,
        Directions::ForwardFree,
        Directions::Backward,
        Directions::Binary,
    ] {
        all.push(case(format!("info_nce {directions:?}"), &[4, 4], &[], move |p, x, _| {
            let logits = p.inner_products(x[0], x[1], 0.7);
            p.info_nce(logits, directions)
        }));
    }
    all.push(case("tempered", &[4, 4], &[(1, 1)], |p, x, w| {
        let products = p.inner_products(x[0], x[1], 1.0);
        p.tempered(products, w[0])
    }));
    all.push(case("scores", &[4, 4, 1], &[], |p, x, _| {
        let products = p.inner_products(x[0], x[1], 1.0);
        p.scores(Some(x[2]), products, 0.7)
    }));
    all.push(case("scores alone", &[4, 4], &[], |p, x, _| {
        let products = p.inner_products(x[0], x[1], 1.0);
        p.scores(None, products, 0.7)
    }));
    for targets in [Targets::Raw, Targets::Clamped] {
        all.push(case(
            format!("distillation {targets:?}"),
            &[4, 4, 4, 4, 1],
            &[(1, 1)],
            move |p, x, w| {
                let (first, second) =
                    (p.inner_products(x[0], x[1], 1.0), p.inner_products(x[2], x[3], 1.0));
                let target = p.targets(x[4], second, targets);
                let (over, under) = (p.excess(first, target), p.shortfall(first, target));
                let factor = p.multiplier(Multiplier::Floored, w[0]);
                let share = p.negative_share(x[4], second);
                p.report("negative", share);
                p.combine(&[
                    Term { constant: 0.7, factor: Some((factor, 0.5)), of: over },
                    Term { constant: 1.3, factor: Some((factor, -0.5)), of: under },
                    Term::new(-0.3, factor),
                    Term::new(1.0, over),
                    Term::new(0.5, under),
                ])
            },
        ));
    }
    all.push(case("backup", &[4, 4, 4, 4], &[], |p, x, _| {
        let (first, second) =
            (p.inner_products(x[0], x[1], 1.0), p.inner_products(x[2], x[3], 1.0));
        let way = p.rows(Rows::Waypoint(Waypoints::default(), Layout::START));
        let gaps = p.column(Column::Gap(way));
        let shape = Backup { scale: 1.5, discount: 0.9, cutoff: 1.0, diagonal: 0.4 };
        p.backup(shape, first, second, gaps)
    }));
    all
}

/// The tile of an MRN's backward half for many coordinates, in more chunks than shared memory holds.
pub fn many_maxima() -> Case {
    let shape = Mrn { components: 2, maxima: 72, squares: 40 };
    let width = shape.width();
    case("mrn 2 72 40", &[width, width], &[], move |p, x, _| p.mrn(shape, x[0], x[1]))
}

/// A norm whose rows a warp reads one by one, and one whose rows a block has.
pub fn wide_norms() -> Vec<Case> {
    let of = |width: usize| {
        let (activation, norm) = (Activation::Gelu, Norm::Layer);
        let shape = Linear { inputs: 8, outputs: width, activation, norm };
        let shapes = [(8, width), (1, width), (1, width), (1, width)];
        case(format!("linear {width}"), &[8], &shapes, move |p, x, w| p.linear(shape, x[0], w))
    };
    [39, 700].map(of).into()
}

pub fn layers() -> Vec<Case> {
    let mut all = Vec::new();
    for activation in [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Swish]
    {
        for norm in [Norm::None, Norm::Layer] {
            let shape = Linear { inputs: 8, outputs: 40, activation, norm };
            let shapes = [(8, 40), (1, 40), (1, 40), (1, 40)];
            let count = if norm == Norm::Layer { 4 } else { 2 };
            all.push(case(
                format!("linear {activation:?} {norm:?}"),
                &[8],
                &shapes[..count],
                move |p, x, w| p.linear(shape, x[0], w),
            ));
        }
    }
    all.push(case(
        "three layers",
        &[8],
        &[(8, 64), (1, 64), (64, 64), (1, 64), (64, 3), (1, 3)],
        |p, x, w| {
            let shape = |inputs, outputs, activation| Linear {
                inputs,
                outputs,
                activation,
                norm: Norm::None,
            };
            let first = p.linear(shape(8, 64, Activation::Relu), x[0], &w[..2]);
            let second = p.linear(shape(64, 64, Activation::Relu), first, &w[2..4]);
            p.linear(shape(64, 3, Activation::Identity), second, &w[4..])
        },
    ));
    all
}

pub fn by_row() -> Vec<Case> {
    let mut all = vec![
        case("clip", &[3], &[], |p, x, _| p.clip(x[0])),
        case("join", &[3, 4, 1], &[], |p, x, _| p.join(&[x[1], x[0], x[2], x[1], x[0]])),
        case("wide join", &[200, 70, 3], &[], |p, x, _| p.join(&[x[2], x[0], x[1]])),
        case("gaussian", &[3], &[], |p, x, _| {
            let action = p.column(Column::Action(Layout::START));
            p.gaussian(x[0], action, 0.7)
        }),
        case("tanh_gaussian", &[6], &[], |p, x, _| {
            let action = p.column(Column::Action(Layout::START));
            p.tanh_gaussian(x[0], action)
        }),
        case("tanh_sample", &[6], &[], |p, x, _| {
            let noise = p.column(Column::Noise(3));
            p.tanh_sample(x[0], noise)
        }),
        case("closeness", &[1], &[], |p, x, _| p.closeness(x[0])),
        case("expectile", &[1, 1, 1], &[], |p, x, _| p.expectile(x[0], x[1], x[2], 0.9)),
        case("hinge", &[1], &[], |p, x, _| p.hinge(x[0], 0.2)),
        case("push", &[1], &[], |p, x, _| p.push(Push { offset: 1.5, scale: 2.0 }, x[0])),
        case("recursive_classification", &[1, 1, 1], &[], |p, x, _| {
            p.recursive_classification(x[0], x[1], x[2], 0.9)
        }),
        case("sphere", &[40], &[], |p, x, _| p.sphere(x[0])),
        case("weighted_sum", &[3, 3], &[], |p, x, _| {
            p.weighted_sum(&[(0.7, x[0]), (-2.0, x[1]), (1.5, x[0]), (0.3, x[1]), (0.2, x[0])])
        }),
        case("categorical", &[4, 4], &[], |p, x, _| {
            let best = p.most_likely(x[1]);
            p.categorical(x[0], best)
        }),
        case("log_mean_exp", &[3, 3, 3], &[], |p, x, _| {
            let both = p.log_mean_exp(&[x[0], x[1]]);
            p.inner_products_by_row(both, x[2], 1.0)
        }),
    ];
    for scale in [Scale::Unit, Scale::Magnitude, Scale::Spread] {
        all.push(case(format!("mean {scale:?}"), &[3], &[], move |p, x, _| p.mean(x[0], scale)));
    }
    for which in [Extremum::Least, Extremum::Largest] {
        all.push(case(format!("extremum {which:?}"), &[3, 3, 3], &[], move |p, x, _| {
            p.extremum_of(which, &[x[0], x[1], x[2], x[0]])
        }));
    }
    for standardize in [Standardize::None, Standardize::Batch] {
        all.push(case(format!("advantage {standardize:?}"), &[1, 1, 1], &[], move |p, x, _| {
            let weights = AdvantageWeights { inverse_temperature: 1.0, standardize, limit: 0.5 };
            p.advantage_regression(x[0], x[1], x[2], weights)
        }));
    }
    for held in [false, true] {
        all.push(case(format!("bootstrap held {held}"), &[1, 1], &[], move |p, x, _| {
            let goal = p.rows(Rows::Mixed(GoalMix::VALUES, Offsets::default()));
            let reached = p.column(Column::Reached(Layout::START, goal, Some(0.5)));
            let target = p.bootstrap(Bootstrap { discount: 0.9, held }, x[0], reached);
            p.squared_error(x[1], target)
        }));
    }
    for form in [Multiplier::Floored, Multiplier::Softplus, Multiplier::Exponential] {
        all.push(case(format!("multiplier {form:?}"), &[1], &[(1, 1)], move |p, x, w| {
            let (factor, mean) = (p.multiplier(form, w[0]), p.mean(x[0], Scale::Unit));
            p.combine(&[Term::new(1.0, factor), Term::new(1.0, mean)])
        }));
    }
    all
}

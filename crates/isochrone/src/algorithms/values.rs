//! What learners of values share: the columns of a backup, the expectile loss, and a policy's view of them.

use crate::data::sampler::{Column, Layout, Rows, RowsId};
use crate::engine::{Program, Scalar, Value};
use crate::extraction::Critique;
use crate::nn::Valued;
use crate::ops::{Bootstrap, Extremum, Term};

/// A value rises as a goal comes near, so its negative is what falls.
impl Critique for Valued {
    /// −min_k Q_k(s, a, g).
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        let goal = program.column(self.shown(goal));
        let values = self.of_action(program, state, action, goal);
        (!values.is_empty()).then(|| {
            let least = program.extremum_of(Extremum::Least, &values);
            program.weighted_sum(&[(-1.0, least)])
        })
    }

    /// −mean_k V_k(s, g).
    fn from<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        self.has_state_values().then(|| {
            let goal = program.column(self.shown(goal));
            minus_value(program, self, state, goal)
        })
    }
}

/// The columns that a value's backup reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueColumns {
    pub state: Value,
    pub next: Value,
    pub goal: Value,
    pub reached: Value,
}

impl ValueColumns {
    /// Declares them for goals of `rows`, as `critic` sees them; a start that is its own goal has arrived.
    pub fn declare<T: Scalar>(program: &mut Program<T>, critic: &Valued, rows: RowsId) -> Self {
        let next = program.rows(Rows::Next);
        Self {
            state: program.column(Column::State(Layout::START)),
            next: program.column(Column::State(next)),
            goal: program.column(critic.shown(rows)),
            reached: program.column(Column::Reached(Layout::START, rows, None)),
        }
    }
}

/// −mean_k V_k(s, g), which falls as the goal comes near.
pub(super) fn minus_value<T: Scalar>(
    program: &mut Program<T>,
    value: &Valued,
    state: Value,
    goal: Value,
) -> Value {
    let goal = value.goal(program, state, goal);
    let values = value.of_state(program, state, goal);
    mean(program, &values, -1.0)
}

fn mean<T: Scalar>(program: &mut Program<T>, values: &[Value], sign: f64) -> Value {
    let share = sign / values.len() as f64;
    let terms: Vec<(f64, Value)> = values.iter().map(|&value| (share, value)).collect();
    program.weighted_sum(&terms)
}

/// Σ_k ℓ_κ(r + γ m V̄_k(s', g) − V_k(s, g); A): the loss of GCIVL's value, and of HIQL's.
pub(super) fn expectile_loss<T: Scalar>(
    program: &mut Program<T>,
    (value, target): (&Valued, &Valued),
    columns: ValueColumns,
    (discount, expectile): (f64, f64),
) -> Value {
    let ValueColumns { state, next, goal, reached } = columns;
    let read = |program: &mut Program<T>, of: &Valued, at: Value| {
        let goal = of.goal(program, at, goal);
        of.of_state(program, at, goal)
    };
    let form = Bootstrap { discount, held: false };
    let ahead = read(program, target, next);
    let least = program.extremum_of(Extremum::Least, &ahead);
    let backed_up = program.bootstrap(form, least, reached);
    let held = read(program, target, state);
    let held = mean(program, &held, 1.0);
    let advantage = program.weighted_sum(&[(1.0, backed_up), (-1.0, held)]);
    let here = read(program, value, state);
    let terms: Vec<Term> = here
        .into_iter()
        .zip(ahead)
        .map(|(here, ahead)| {
            let target = program.bootstrap(form, ahead, reached);
            Term::new(1.0, program.expectile(here, target, advantage, expectile))
        })
        .collect();
    program.combine(&terms)
}

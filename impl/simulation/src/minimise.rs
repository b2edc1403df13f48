//! Making a run that goes wrong smaller, as long as it goes wrong in the same way.

use crate::plan::{CallPlan, Plan};
use crate::run::SimulationError;
use crate::violation::Property;

/// How many runs are tried at most.
const MOST: usize = 2_000;

/// How many other courses are tried without a part that this course can't do without: what is left out shifts all that is drawn
/// after it.
const COURSES: u64 = 12;

impl Plan {
    /// The smallest plan found that violates the same property; this one if it violates it and nothing can be left out.
    ///
    /// # Errors
    /// If a run can't be begun.
    pub fn minimised(&self, property: Property) -> Result<Plan, SimulationError> {
        let mut smaller = Smaller { best: self.clone(), property, left: MOST };
        loop {
            let before = smaller.best.clone();
            smaller.leave_out(|plan| &mut plan.faults)?;
            smaller.leave_out(|plan| &mut plan.calls)?;
            smaller.without_rates()?;
            smaller.simplify()?;
            if smaller.best == before || smaller.left == 0 {
                return Ok(smaller.best);
            }
        }
    }
}

struct Smaller {
    best: Plan,
    property: Property,
    left: usize,
}

impl Smaller {
    /// Takes a plan instead, if it goes wrong in the same way.
    fn attempt(&mut self, plan: Plan) -> Result<bool, SimulationError> {
        if self.left == 0 || plan == self.best {
            return Ok(false);
        }
        self.left -= 1;
        let wrong = plan.run(false)?.violations.iter().any(|violation| violation.property == self.property);
        if wrong {
            self.best = plan;
        }
        Ok(wrong)
    }

    /// Takes a plan instead, if it goes wrong in the same way, or takes as many others that differ in what is drawn by chance.
    fn attempt_courses(&mut self, plan: Plan, others: u64) -> Result<bool, SimulationError> {
        for course in 0..=others {
            let seed = plan.seed.wrapping_add(course);
            if self.attempt(Plan { seed, ..plan.clone() })? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Leaves out parts of a list: halves, quarters, and so on down to single items.
    fn leave_out<T: Clone>(&mut self, list: impl Fn(&mut Plan) -> &mut Vec<T>) -> Result<(), SimulationError> {
        let mut part = list(&mut self.best).len();
        while part > 0 {
            let mut from = 0;
            while from < list(&mut self.best).len() {
                let mut plan = self.best.clone();
                let items = list(&mut plan);
                let to = (from + part).min(items.len());
                items.drain(from..to);
                if !self.attempt_courses(plan, if part == 1 { COURSES } else { 0 })? {
                    from += part;
                }
            }
            part /= 2;
        }
        Ok(())
    }

    fn without_rates(&mut self) -> Result<(), SimulationError> {
        for index in 0..self.best.rates.each().len() {
            let mut plan = self.best.clone();
            if let Some((_, rate)) = plan.rates.each().into_iter().nth(index) {
                *rate = 0;
            }
            self.attempt(plan)?;
        }
        Ok(())
    }

    /// Fewer guards, fewer questions, a shorter time.
    fn simplify(&mut self) -> Result<(), SimulationError> {
        while self.best.guards > 1 {
            let mut plan = self.best.clone();
            plan.guards -= 1;
            let guards = plan.guards;
            plan.calls.iter_mut().for_each(|call| call.guard %= guards);
            plan.faults.iter_mut().for_each(|fault| fault.fault.at_most(guards));
            if !self.attempt(plan)? {
                break;
            }
        }
        for index in 0..self.best.calls.len() {
            for change in [|call: &mut CallPlan| call.cancels = None, |call: &mut CallPlan| call.asks = 1] {
                let mut plan = self.best.clone();
                plan.calls.get_mut(index).into_iter().for_each(change);
                self.attempt(plan)?;
            }
        }
        let calls = self.best.calls.iter().map(|call| call.at);
        let last = calls.chain(self.best.faults.iter().map(|fault| fault.at)).max().unwrap_or_default();
        let plan = Plan { load: self.best.load.min(last + 100), ..self.best.clone() };
        self.attempt(plan)?;
        Ok(())
    }
}

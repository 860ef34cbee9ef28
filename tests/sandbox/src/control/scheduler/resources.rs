//! Amounts of resources as plain integers: cpu in thousandths, everything else in units.

use std::collections::HashMap;

use muster_kube::quantity::Quantity;
use serde_json::Value;

use super::super::json;

/// Numbers the names of resources, so that amounts are vectors.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, usize>, Vec<String>);

/// Amounts by number of resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(Vec<i64>);

/// Number of `cpu` and of `memory`: they come first in every [`Names`].
pub const CPU: usize = 0;
/// Index of memory, see [`CPU`].
pub const MEMORY: usize = 1;

// === impl Names ===

impl Names {
    /// With cpu and memory in their places.
    pub fn new() -> Self {
        let mut names = Self::default();
        names.number("cpu");
        names.number("memory");
        names
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.1.len();
        self.0.insert(name.to_owned(), number);
        self.1.push(name.to_owned());
        number
    }

    /// The name of a number.
    pub fn name(&self, number: usize) -> &str {
        self.1.get(number).map(String::as_str).unwrap_or("")
    }

    /// Reads a resource list such as `status.allocatable`.
    pub fn read(&mut self, list: Option<&Value>) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, written) in list.and_then(Value::as_object).into_iter().flatten() {
            let amount = match written {
                Value::String(text) => text.parse::<Quantity>().ok(),
                Value::Number(number) => number.to_string().parse().ok(),
                _ => None,
            };
            if let Some(amount) = amount {
                let number = self.number(name);
                let value = match number {
                    CPU => amount.milli(),
                    _ => amount.units(),
                };
                *amounts.slot(number) = value;
            }
        }
        amounts
    }

    /// What a pod asks for: its containers together, or its greatest init container, plus overhead.
    pub fn requests(&mut self, pod: &Value) -> Amounts {
        let mut together = Amounts::default();
        for container in json::list(pod, "/spec/containers") {
            together.add(&self.of_container(container));
        }
        let mut sidecars = Amounts::default();
        let mut greatest = Amounts::default();
        for container in json::list(pod, "/spec/initContainers") {
            let mut one = self.of_container(container);
            if json::text(container, "/restartPolicy") == "Always" {
                sidecars.add(&one);
                one = sidecars.clone();
            } else {
                one.add(&sidecars);
            }
            greatest.raise_to(&one);
        }
        together.add(&sidecars);
        together.raise_to(&greatest);
        // A request for the pod as a whole replaces the sum.
        let whole = self.read(pod.pointer("/spec/resources/requests"));
        for (number, amount) in whole.each() {
            *together.slot(number) = amount;
        }
        together.add(&self.read(pod.pointer("/spec/overhead")));
        together
    }

    fn of_container(&mut self, container: &Value) -> Amounts {
        let mut amounts = self.read(container.pointer("/resources/requests"));
        // A limit without a request is a request; the API defaults it so.
        let limits = self.read(container.pointer("/resources/limits"));
        for (number, amount) in limits.each() {
            let name = self.name(number).to_owned();
            if container.pointer("/resources/requests").and_then(|r| r.get(&name)).is_none() {
                *amounts.slot(number) = amount;
            }
        }
        amounts
    }
}

// === impl Amounts ===

impl Amounts {
    fn slot(&mut self, number: usize) -> &mut i64 {
        if self.0.len() <= number {
            self.0.resize(number + 1, 0);
        }
        &mut self.0[number]
    }

    /// The amount of one resource.
    pub fn get(&self, number: usize) -> i64 {
        self.0.get(number).copied().unwrap_or(0)
    }

    /// All amounts that are not zero.
    pub fn each(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.0.iter().copied().enumerate().filter(|(_, amount)| *amount != 0)
    }

    /// Adds each amount.
    pub fn add(&mut self, other: &Self) {
        for (number, amount) in other.each() {
            let slot = self.slot(number);
            *slot = slot.saturating_add(amount);
        }
    }

    /// Subtracts each amount.
    pub fn subtract(&mut self, other: &Self) {
        for (number, amount) in other.each() {
            let slot = self.slot(number);
            *slot = slot.saturating_sub(amount);
        }
    }

    fn raise_to(&mut self, other: &Self) {
        for (number, amount) in other.each() {
            let slot = self.slot(number);
            *slot = (*slot).max(amount);
        }
    }
}

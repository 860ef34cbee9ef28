//! Devices that drivers offer: which are there, and which nodes can use them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use muster_kube::Quantity;

use crate::{
    input::{self, ResourceSlice},
    selector::Selector,
    snapshot::{Device, DeviceId, Devices, Filter, Node, NodeId, Pool, Reach, Table},
};

use super::{Builder, node::amount_of};

/// Resources that a class offers without saying so begin with this.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// A slice that counts, and its devices.
struct Slice {
    pool: usize,
    reach: Reach,
    devices: Vec<DeviceId>,
    of: i64,
}

// === impl Builder ===

impl<'a> Builder<'a> {
    /// All devices, and the pools of each node.
    pub(super) fn devices(&mut self, nodes: &mut Table<NodeId, Node>) -> Devices {
        let mut devices = Devices::default();
        let input = self.input;
        if input.resource_slices.is_empty() {
            return devices;
        }
        let slices = self.slices(&mut devices.all);
        let mut local: HashMap<NodeId, Vec<&Slice>> = HashMap::new();
        for slice in &slices {
            if let Reach::Node(Some(node)) = slice.reach {
                local.entry(node).or_default().push(slice);
            }
        }
        let far: Vec<&Slice> =
            slices.iter().filter(|slice| !matches!(slice.reach, Reach::Node(_))).collect();
        for (id, node) in nodes.entries() {
            let near = local.remove(&id).unwrap_or_default();
            let here = far.iter().copied().filter(|slice| match &slice.reach {
                Reach::Nodes(selector) => selector.matches(&node.name, &node.labels),
                _ => true,
            });
            let mut pools: BTreeMap<usize, (Pool, i64, i64)> = BTreeMap::new();
            for slice in near.into_iter().chain(here) {
                let (pool, count, of) = pools.entry(slice.pool).or_default();
                pool.devices.extend(&slice.devices);
                *count += 1;
                *of = slice.of;
            }
            let finish = |(mut pool, count, of): (Pool, i64, i64)| {
                pool.incomplete = count != of;
                let mut names: Vec<&str> =
                    pool.devices.iter().map(|id| devices.all[*id].name.as_str()).collect();
                names.sort_unstable();
                pool.invalid = !names.is_sorted_by(|a, b| a < b);
                pool
            };
            devices.pools.push(pools.into_values().map(finish).collect());
        }
        self.offer_extended(&mut devices, nodes);
        devices
    }

    /// Slices of the newest generation of each pool, with their devices.
    fn slices(&self, all: &mut Table<DeviceId, Device>) -> Vec<Slice> {
        let mut order: Vec<&ResourceSlice> = self.input.resource_slices.iter().collect();
        order.sort_by(|a, b| {
            let key = |slice: &'a ResourceSlice| {
                (&slice.spec.driver, &slice.spec.pool.name, &slice.metadata.name)
            };
            key(a).cmp(&key(b))
        });
        let mut newest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for slice in &order {
            let key = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
            let known = newest.entry(key).or_insert(i64::MIN);
            *known = (*known).max(slice.spec.pool.generation);
        }
        let mut slices = Vec::new();
        let mut names: Vec<(&str, &str)> = Vec::new();
        for slice in order {
            let spec = &slice.spec;
            let key = (spec.driver.as_str(), spec.pool.name.as_str());
            let Some(reach) = self.reach(spec) else { continue };
            if newest.get(&key) != Some(&spec.pool.generation) {
                continue;
            }
            if names.last() != Some(&key) {
                names.push(key);
            }
            let (driver, pool): (Arc<str>, Arc<str>) = (key.0.into(), key.1.into());
            let devices = spec.devices.iter().filter_map(|device| {
                let facts = device.basic.as_deref().unwrap_or(device);
                let whole =
                    facts.consumes_counters.is_empty() && facts.binding_conditions.is_empty();
                whole.then(|| {
                    all.push(Device {
                        driver: driver.clone(),
                        pool: pool.clone(),
                        name: device.name.clone(),
                        attributes: facts.attributes.clone(),
                        capacity: facts
                            .capacity
                            .iter()
                            .map(|(name, amount)| (name.clone(), amount.value()))
                            .collect(),
                        shared: facts.allow_multiple_allocations.unwrap_or(false),
                        reach: reach.clone(),
                    })
                })
            });
            slices.push(Slice {
                pool: names.len(),
                devices: devices.collect(),
                of: spec.pool.resource_slice_count,
                reach,
            });
        }
        slices
    }

    /// Where devices of a slice can be used; none if that is said in a way that is not known.
    fn reach(&self, spec: &input::ResourceSliceSpec) -> Option<Reach> {
        match (&spec.node_name, &spec.node_selector) {
            (Some(name), _) if !name.is_empty() => {
                Some(Reach::Node(self.node_ids.get(name.as_str()).copied()))
            }
            _ if spec.all_nodes.unwrap_or(false) => Some(Reach::All),
            (_, Some(selector)) => Some(Reach::Nodes(Arc::new(selector.clone()))),
            _ => None,
        }
    }

    /// Devices of classes that serve an extended resource count as that resource, on nodes that have no other such.
    fn offer_extended(&mut self, devices: &mut Devices, nodes: &mut Table<NodeId, Node>) {
        let input = self.input;
        for class in &input.device_classes {
            let named = class.spec.extended_resource_name.as_deref();
            let implicit = format!("{IMPLICIT}{}", class.metadata.name);
            for resource in named.into_iter().chain([implicit.as_str()]) {
                let Some(dimension) = self.dimensions.find(resource) else { continue };
                if self.extended.contains_key(&dimension) {
                    continue;
                }
                let Ok(filter) = self.filter(devices, &class.metadata.name, &[]) else { continue };
                self.extended.insert(dimension, filter);
                let Some(filter) = devices.filters.get(filter as usize) else { continue };
                for (node, pools) in nodes.iter_mut().zip(&devices.pools) {
                    let place = node.allocatable.get_mut(dimension);
                    let Some(place) = place.filter(|amount| **amount == 0.0) else { continue };
                    let there = pools.iter().flat_map(|pool| &pool.devices);
                    let fits = |id: &&DeviceId| filter.matches(&devices.all[**id]) == Ok(true);
                    let count = there.filter(fits).count();
                    if count > 0 {
                        let amount = Quantity::from_units(count as i64);
                        *place = amount_of(&self.dimensions, resource, dimension, amount);
                        node.claimed_dimensions.push(dimension);
                    }
                }
            }
        }
    }

    /// A filter of a class and selectors of a request, each only once.
    pub(super) fn filter(
        &mut self,
        devices: &mut Devices,
        class: &str,
        selectors: &[input::DeviceSelector],
    ) -> Result<u32, String> {
        let text = |selector: &'_ input::DeviceSelector| {
            selector.cel.as_ref().map(|cel| cel.expression.clone()).unwrap_or_default()
        };
        let key = (class.to_owned(), selectors.iter().map(text).collect::<Vec<String>>());
        if let Some(known) = self.filter_ids.get(&key) {
            return known.clone();
        }
        let made = self.read_filter(class, selectors).map(|filter| {
            devices.filters.push(filter);
            (devices.filters.len() - 1) as u32
        });
        self.filter_ids.insert(key, made.clone());
        made
    }

    fn read_filter(
        &self,
        class: &str,
        selectors: &[input::DeviceSelector],
    ) -> Result<Filter, String> {
        let object = self
            .input
            .device_classes
            .iter()
            .find(|object| object.metadata.name == class)
            .ok_or_else(|| format!("device class {class} does not exist: create it"))?;
        let mut read = Vec::new();
        let own = object.spec.selectors.iter().map(|selector| (selector, true));
        for (selector, of_class) in own.chain(selectors.iter().map(|selector| (selector, false))) {
            let whose = if of_class { format!("device class {class}") } else { "it".to_owned() };
            let Some(cel) = &selector.cel else {
                return Err(format!("{whose} has a selector without `cel`: write one"));
            };
            let selector = Selector::parse(&cel.expression)
                .map_err(|error| format!("{whose} has a selector that cannot be read: {error}"))?;
            read.push(selector);
        }
        let config = object.spec.config.clone();
        Ok(Filter { class: class.to_owned(), selectors: read, config })
    }
}

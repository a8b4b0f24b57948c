use super::Host;
use super::files::cpu_list;
use crate::manifest::CoreChoice;
use crate::plan::Cores;

/// One logical CPU and where it sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number.
    pub number: u32,
    /// The lowest number among the CPUs of the same physical core.
    pub core: u32,
    /// NUMA node.
    pub node: u32,
}

/// The CPUs that are online.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// By number.
    pub cpus: Vec<Cpu>,
}

impl Host {
    /// Which CPUs are online and how they share cores and nodes.
    pub fn topology(&self) -> Topology {
        let online =
            self.text("sys/devices/system/cpu/online").map(|list| cpu_list(&list)).unwrap_or_default();
        let nodes: Vec<(u32, Vec<u32>)> = self
            .text("sys/devices/system/node/online")
            .map(|list| cpu_list(&list))
            .unwrap_or_default()
            .into_iter()
            .filter_map(|node| {
                let list = self.text(&format!("sys/devices/system/node/node{node}/cpulist"))?;
                Some((node, cpu_list(&list)))
            })
            .collect();
        let cpus = online
            .iter()
            .map(|number| {
                let siblings = format!("sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list");
                let core = self.text(&siblings).and_then(|list| cpu_list(&list).into_iter().min());
                let node = nodes.iter().find(|(_, cpus)| cpus.contains(number)).map_or(0, |(node, _)| *node);
                Cpu { number: *number, core: core.unwrap_or(*number), node }
            })
            .collect();
        Topology { cpus }
    }
}

impl Topology {
    /// Numbers of the CPUs that are online.
    pub fn online(&self) -> Vec<u32> {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }

    /// Physical cores.
    pub fn physical_cores(&self) -> usize {
        let mut cores: Vec<u32> = self.cpus.iter().map(|cpu| cpu.core).collect();
        cores.sort_unstable();
        cores.dedup();
        cores.len()
    }

    /// NUMA nodes.
    pub fn nodes(&self) -> usize {
        let mut nodes: Vec<u32> = self.cpus.iter().map(|cpu| cpu.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }

    /// Cores for both sides. `Auto` takes distinct physical cores of one NUMA node, the server's first, and for the
    /// client as many as it has threads, as far as they go. The error says what is missing and what to do.
    pub fn pick(
        &self,
        server: &CoreChoice,
        client: &CoreChoice,
        client_threads: u32,
    ) -> Result<Cores, String> {
        let missing = |cores: &[u32]| cores.iter().copied().find(|core| !self.online().contains(core));
        for choice in [server, client] {
            if let CoreChoice::These(cores) = choice
                && let Some(core) = missing(cores)
            {
                return Err(format!("core {core} is not online here; there are {:?}", self.online()));
            }
        }
        let taken: Vec<u32> = [server, client]
            .into_iter()
            .filter_map(|choice| match choice {
                CoreChoice::These(cores) => Some(cores.clone()),
                CoreChoice::Auto => None,
            })
            .flatten()
            .collect();
        let used: Vec<&Cpu> = self.cpus.iter().filter(|cpu| taken.contains(&cpu.number)).collect();
        let mut free: Vec<&Cpu> = Vec::new();
        for cpu in &self.cpus {
            // One CPU of each physical core; siblings share what is measured.
            if !used.iter().chain(&free).any(|other| other.core == cpu.core) {
                free.push(cpu);
            }
        }
        // The node that has the explicit cores, else the one with most cores left.
        let count = |node: u32| free.iter().filter(|cpu| cpu.node == node).count();
        let node = used.first().map(|cpu| cpu.node).or_else(|| {
            free.iter().map(|cpu| cpu.node).max_by_key(|node| (count(*node), std::cmp::Reverse(*node)))
        });
        // Cores of other nodes only when the one has no more.
        free.sort_by_key(|cpu| (Some(cpu.node) != node, cpu.number));
        let mut free = free.into_iter().map(|cpu| cpu.number);
        let mut take = |choice: &CoreChoice, wanted: u32| match choice {
            CoreChoice::These(cores) => cores.clone(),
            CoreChoice::Auto => free.by_ref().take(wanted as usize).collect(),
        };
        let cores = Cores { server: take(server, 1), client: take(client, client_threads.max(1)) };
        if cores.server.is_empty() || cores.client.is_empty() {
            return Err(format!(
                "server and client need a physical core each, and this host has {} in all; \
                 name them by `--cores server=0 --cores client=1` if they may share one",
                self.physical_cores()
            ));
        }
        Ok(cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::files::test_support::host;
    use CoreChoice::{Auto, These};

    fn made(cpus: &[(u32, u32, u32)]) -> Topology {
        Topology {
            cpus: cpus
                .iter()
                .map(|(number, core, node)| Cpu { number: *number, core: *core, node: *node })
                .collect(),
        }
    }

    #[test]
    fn siblings_and_nodes_are_read() {
        let (_root, host) = host(&[
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/node/online", "0-1\n"),
            ("sys/devices/system/node/node0/cpulist", "0,2\n"),
            ("sys/devices/system/node/node1/cpulist", "1,3\n"),
            ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
            ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n"),
            ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n"),
            ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3\n"),
        ]);
        let topology = host.topology();
        assert_eq!(topology, made(&[(0, 0, 0), (1, 1, 1), (2, 0, 0), (3, 1, 1)]));
        assert_eq!((topology.physical_cores(), topology.nodes()), (2, 2));
    }

    #[test]
    fn auto_takes_distinct_cores_of_the_larger_node() {
        let topology = made(&[(0, 0, 0), (1, 0, 0), (2, 2, 1), (3, 3, 1), (4, 4, 1)]);
        let cores = topology.pick(&Auto, &Auto, 4).unwrap();
        assert_eq!(cores, Cores { server: vec![2], client: vec![3, 4, 0] });
        assert_eq!(topology.pick(&Auto, &Auto, 1).unwrap().client, [3]);
    }

    #[test]
    fn auto_avoids_the_sibling_of_a_core_that_was_named() {
        let topology = made(&[(0, 0, 0), (1, 0, 0), (2, 2, 0)]);
        assert_eq!(topology.pick(&These(vec![0]), &Auto, 4).unwrap().client, [2]);
    }

    #[test]
    fn one_core_is_not_enough_unless_named() {
        let topology = made(&[(0, 0, 0), (1, 0, 0)]);
        assert!(topology.pick(&Auto, &Auto, 1).unwrap_err().contains("physical core each"));
        assert!(topology.pick(&These(vec![0]), &These(vec![0]), 1).is_ok());
        assert!(topology.pick(&These(vec![9]), &Auto, 1).unwrap_err().contains("core 9"));
    }
}

use std::path::{Component, Path, PathBuf};

use super::Host;
use super::files::field;

/// Memory limits from here on mean "none": version 1 says so by a number near 2^63.
const NO_MEMORY_LIMIT: u64 = 1 << 60;

impl Host {
    /// CPU time per wall-clock time that the control groups of this process allow, in cores; none when unlimited.
    pub fn cpu_quota(&self) -> Option<f64> {
        let of = |folder: &Path| {
            if let Some(text) = self.text(&format!("{}/cpu.max", folder.display())) {
                let (quota, period) = text.split_once(' ')?;
                return Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|us| *us > 0.0)?);
            }
            let number = |name: &str| self.number::<f64>(&format!("{}/{name}", folder.display()));
            let (quota, period) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
            (quota > 0.0 && period > 0.0).then(|| quota / period)
        };
        self.own_groups("cpu").iter().filter_map(|folder| of(folder)).min_by(f64::total_cmp)
    }

    /// Memory that the control groups of this process allow, in bytes; none when unlimited.
    pub fn memory_limit(&self) -> Option<u64> {
        let of = |folder: &Path| {
            ["memory.max", "memory.limit_in_bytes"]
                .iter()
                .find_map(|name| self.number::<u64>(&format!("{}/{name}", folder.display())))
                .filter(|bytes| *bytes < NO_MEMORY_LIMIT)
        };
        self.own_groups("memory").iter().filter_map(|folder| of(folder)).min()
    }

    /// Times so far that a CPU quota held the control groups of this process back; none where there is no quota.
    pub fn quota_throttles(&self) -> Option<u64> {
        self.cpu_quota()?;
        self.own_groups("cpu")
            .iter()
            .filter_map(|folder| {
                let stat = self.text(&format!("{}/cpu.stat", folder.display()))?;
                field(&stat, "nr_throttled")?.parse::<u64>().ok()
            })
            .reduce(|sum, more| sum + more)
    }

    /// Folders of the control groups that this process is in, its own first, then those around it.
    fn own_groups(&self, controller: &str) -> Vec<PathBuf> {
        const MOUNT: &str = "sys/fs/cgroup";
        let Some(text) = self.text("proc/self/cgroup") else { return Vec::new() };
        let mut folders = Vec::new();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let base = if controllers.is_empty() {
                PathBuf::from(MOUNT)
            } else if controllers.split(',').any(|name| name == controller) {
                let joint = Path::new(MOUNT).join(controllers);
                if self.path(&joint.display().to_string()).is_dir() {
                    joint
                } else {
                    Path::new(MOUNT).join(controller)
                }
            } else {
                continue;
            };
            // A path that leads out of the namespace cannot be seen from here.
            let inner: PathBuf =
                Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect();
            let mut folder = base.join(inner);
            while folder.starts_with(&base) {
                folders.push(folder.clone());
                if !folder.pop() {
                    break;
                }
            }
        }
        folders
    }
}

#[cfg(test)]
mod tests {
    use crate::host::files::test_support::host;

    #[test]
    fn the_tightest_quota_of_version_2_counts() {
        let (_root, host) = host(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/cpu.stat", "usage_usec 7\nnr_throttled 3\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "1048576\n"),
        ]);
        assert_eq!(host.cpu_quota(), Some(1.5));
        assert_eq!(host.memory_limit(), Some(1_048_576));
        assert_eq!(host.quota_throttles(), Some(3));
    }

    #[test]
    fn version_1_says_unlimited_by_numbers() {
        let (_root, host) = host(&[
            ("proc/self/cgroup", "4:memory:/x\n2:cpu,cpuacct:/\n0::/\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!((host.cpu_quota(), host.memory_limit(), host.quota_throttles()), (None, None, None));
    }

    #[test]
    fn a_quota_of_version_1_is_found_where_controllers_are_mounted_apart() {
        let (_root, host) = host(&[
            ("proc/self/cgroup", "2:cpu,cpuacct:/y\n"),
            ("sys/fs/cgroup/cpu/y/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/y/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(host.cpu_quota(), Some(0.5));
    }

    #[test]
    fn a_path_that_leads_out_is_not_followed() {
        let (_root, host) = host(&[("proc/self/cgroup", "0::/../../..\n")]);
        assert_eq!(host.cpu_quota(), None);
    }
}

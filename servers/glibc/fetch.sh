# Unpacks the C library of Debian's stable release into a folder of its own. Nothing of the system is changed: lists
# and caches lie in that folder too. The package is checked by apt against the system's own keys.
set -eu

into=$1
keys=/usr/share/keyrings/debian-archive-keyring.gpg

for tool in apt-get dpkg-deb; do
  command -v "$tool" > /dev/null || { echo "$tool is not installed: only Debian and its kin can do this" >&2; exit 1; }
done
[ -f "$keys" ] || { echo "there is no $keys, by which packages are checked" >&2; exit 1; }

# The mirror that this host uses already.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' |
  awk '$1 ~ /\/debian\/?$/ && $2 == "main" { print $1; exit }')
[ -n "$mirror" ] || { echo "this host has no source of Debian packages" >&2; exit 1; }

rm -rf "$into"
mkdir -p "$into/apt/lists/partial" "$into/apt/archives/partial" "$into/root"
cd "$into/apt"
echo "deb [signed-by=$keys] $mirror stable main" > sources.list
cat > apt.conf << END
Dir::Etc::SourceList "$into/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$into/apt/lists";
Dir::Cache "$into/apt";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Retries "2";
END
export APT_CONFIG="$into/apt/apt.conf"
apt-get -q update
apt-get -q download libc6
dpkg-deb -x libc6_*.deb "$into/root"

# Where the loader and the libraries are depends on the architecture.
loader=$(find "$into/root/usr/lib" -path '*-linux-gnu/ld-linux-*' -name '*.so.*' | head -n 1)
[ -n "$loader" ] || { echo "the package has no loader" >&2; exit 1; }
cd "$into"
rm -r apt
ln -s "$(dirname "$loader")" lib
# Last: by this the library is known to be complete.
ln -s "$loader" ld.so

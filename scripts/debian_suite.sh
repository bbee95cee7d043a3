# Has apt read one suite of Debian and nothing else, for scripts that unpack packages without installing them. Source it:
#   debian_suite WORK NAME     reads the lists; later apt commands of the script are about that suite
#
# The mirror is the one that this machine uses already. Lists, cache and an empty package status are below WORK, so
# nothing of the system's apt is changed, and no root is needed.

debian_suite() {
    suite=$2
    mirror=${DM_DEBIAN_MIRROR:-}
    if [ -z "$mirror" ]; then
        # The archive proper: its label is "Debian"; security updates and third-party sources carry another one.
        mirror=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(SUITE)|$(REPO_URI)' 'Created-By: Packages' |
            awk -F'|' '$1 == "Debian" && $2 == "Debian" && $3 !~ /-/ { print $4; exit }')
    fi
    if [ -z "$mirror" ]; then
        say "this machine's apt knows no Debian archive: run apt-get update as root, or set DM_DEBIAN_MIRROR to its URI"
        return 1
    fi
    mkdir -p "$1/apt/lists/partial" "$1/apt/cache/archives/partial" "$1/apt/parts"
    : >"$1/apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$1/apt/sources.list"
    cat >"$1/apt/apt.conf" <<CONF
Dir::Etc::SourceList "$1/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "$1/apt/parts";
Dir::State::Lists "$1/apt/lists";
Dir::State::Status "$1/apt/status";
Dir::State::Extended_States "$1/apt/extended_states";
Dir::Cache "$1/apt/cache";
APT::Sandbox::User "";
APT::Install-Recommends "false";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
    export APT_CONFIG="$1/apt/apt.conf"
    say "reading the package lists of Debian $suite"
    apt-get -qq update
}

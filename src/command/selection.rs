/// Which cells of a manifest; shared by every verb that takes a manifest.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SelectionArgs {
    /// Only cells that match; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub cell: Vec<String>,
    /// No cells that match; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub not: Vec<String>,
    /// Also cells that run only when asked for
    #[arg(long)]
    pub include_opt_in: bool,
    /// Executable of a runtime, in place of the installed one, e.g. `node-26=/usr/bin/node`
    #[arg(long, value_name = "NAME=PATH")]
    pub runtime: Vec<String>,
}

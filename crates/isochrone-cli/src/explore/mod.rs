//! `isochrone explore`: a page on this machine to look at runs and ask them.

mod api;
mod asked;
mod desk;
mod gate;
mod http;
mod loaded;
mod pages;
mod recorded;
mod sent;
mod server;
mod subject;

use std::io::{IsTerminal, Read};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use isochrone::checkpoint::write_whole;
use isochrone::{Error, Result};
use serde_json::{Value, json};

use self::api::Api;
use self::gate::Gate;
use self::server::Server;
use self::subject::{Description, ShownRun, described};
use crate::opened::seed_folders;
use crate::output::{check_target, say};
use crate::progress::waiting;

/// Explore a run in a browser: click a goal, see the steps from everywhere
///
/// Serves one page on this machine and prints its address; Ctrl-C ends it. The page shows the learned
/// distance over two state coordinates, plans paths, runs the policy, compares two runs, and follows a
/// run while it trains. The same server answers programs in JSON (docs/api.md).
///
/// With --export nothing is served: one file is written that works without a server and without a
/// network.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone explore runs/demo/atlas
  isochrone explore runs/demo/atlas runs/demo/cmd2-paper
  isochrone explore runs/demo/atlas --export page.html")]
pub struct Explore {
    /// A run's folder; the run may still be training
    run: PathBuf,
    /// Another run of the same data, to show beside it
    #[arg(value_name = "RUN2")]
    other: Option<PathBuf>,
    /// The address to listen on; other machines need the token that is printed
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// The port [default: 4747, or a free one if it is taken]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Do not open a browser
    #[arg(long)]
    no_open: bool,
    /// Write one self-contained page instead
    #[arg(long, value_name = "PAGE")]
    export: Option<PathBuf>,
    /// Replace PAGE if it exists
    #[arg(long, requires = "export")]
    force: bool,
}

/// The port unless another is asked for.
const PORT: u16 = 4747;
/// Latent values of a map in an exported page.
const FLOATS: usize = 1_200_000;

/// Runs the command.
pub fn run(arguments: &Explore) -> Result<()> {
    if let Some(page) = &arguments.export {
        check_target(page, arguments.force)?;
    }
    let folders = std::iter::once(&arguments.run).chain(&arguments.other);
    let subjects = folders.map(|folder| subject(folder)).collect::<Result<Vec<_>>>()?;
    check_pair(&subjects)?;
    match &arguments.export {
        Some(page) => waiting("export", |_| export(&subjects, page)),
        None => serve(arguments, subjects),
    }
}

fn subject(folder: &Path) -> Result<Arc<ShownRun>> {
    if let [first, ..] = &seed_folders(folder)[..] {
        return Err(Error::input("several seeds, expected one run")
            .in_file(folder)
            .hint(format!("name one of them, such as `{}`", first.display())));
    }
    ShownRun::new(folder)
}

/// Refuses two runs whose goals cannot be the same.
fn check_pair(subjects: &[Arc<ShownRun>]) -> Result<()> {
    let size = |one: &Arc<ShownRun>| {
        one.loaded().ok().map(|loaded| loaded.opened.model.shape().state_size)
    };
    let sizes: Vec<usize> = subjects.iter().filter_map(size).collect();
    match sizes[..] {
        [one, other] if one != other => Err(Error::input(format!(
            "states of the two runs have `{one}` and `{other}` values, expected the same"
        ))
        .hint("compare runs of the same data")),
        _ => Ok(()),
    }
}

fn serve(arguments: &Explore, subjects: Vec<Arc<ShownRun>>) -> Result<()> {
    let ip = address(&arguments.host)?;
    let listener = listen(ip, arguments.port)?;
    let address = listener.local_addr().map_err(|error| cannot_listen(ip, &error))?;
    let token = if ip.is_loopback() { None } else { Some(token()?) };
    let shown = if arguments.host == "localhost" { arguments.host.clone() } else { literal(ip) };
    let query = token.as_ref().map_or(String::new(), |token| format!("?token={token}"));
    let link = format!("http://{shown}:{}/{query}", address.port());
    let server = Server::new(Api { subjects: subjects.clone() }, Gate::new(&shown, address, token));
    subjects.iter().for_each(ShownRun::watch);
    say(&format!("explore   {link}"))?;
    say("          Ctrl-C ends it")?;
    if !arguments.no_open && std::io::stdout().is_terminal() {
        open_browser(&link);
    }
    server.serve(&listener);
    Ok(())
}

fn literal(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn address(host: &str) -> Result<IpAddr> {
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    host.trim_matches(['[', ']']).parse().map_err(|_| {
        Error::input(format!("`--host` is `{host}`, expected an address of this machine"))
            .hint("127.0.0.1 is for this machine alone, 0.0.0.0 for all that can reach it")
    })
}

fn listen(ip: IpAddr, asked: Option<u16>) -> Result<TcpListener> {
    let bind = |port: u16| TcpListener::bind(SocketAddr::new(ip, port));
    let bound = match asked {
        Some(port) => bind(port),
        None => bind(PORT).or_else(|_| bind(0)),
    };
    bound.map_err(|error| cannot_listen(ip, &error))
}

fn cannot_listen(ip: IpAddr, error: &std::io::Error) -> Error {
    Error::input(format!("cannot listen at `{ip}`: {error}")).hint("try another `--port`")
}

/// 128 random bits in hexadecimal.
fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    let drawn =
        std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    drawn.map_err(|error| Error::disk("read", "/dev/urandom", error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens the page where there is a browser; where there is none, the printed address has to do.
fn open_browser(link: &str) {
    let opener = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let quiet = || Stdio::null();
    Command::new(opener).arg(link).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().ok();
}

fn export(subjects: &[Arc<ShownRun>], page: &Path) -> Result<()> {
    subjects.iter().try_for_each(|subject| subject.open().map(drop))?;
    let told = described(subjects);
    let runs = subjects.iter().zip(&told).map(|(subject, about)| exported(subject, about));
    let runs = runs.collect::<Result<Vec<_>>>()?;
    let text = pages::bundled(&json!({ "runs": runs }));
    write_whole(page, text.as_bytes())?;
    say(&format!("wrote     {}", page.display()))
}

/// Everything about one run that works without a server.
fn exported(subject: &ShownRun, about: &Description) -> Result<Value> {
    let loaded = subject.open()?;
    let axes = loaded.axes;
    let ask = |question: fn(&desk::Clerk<'_>) -> Result<Value>| {
        loaded.desk.ask(question).unwrap_or(Value::Null)
    };
    let judged = loaded.opened.model.has_distance();
    Ok(json!({
        "about": about,
        "map": sent::map(&loaded, axes, FLOATS)?,
        "model": sent::model(&loaded),
        "trajectories": sent::trajectories(&loaded, axes)?,
        "curves": sent::curves(&subject.folder)?,
        "audit": if judged { ask(api::audited) } else { Value::Null },
        "calibration": if judged { ask(api::calibrated) } else { Value::Null },
    }))
}

//! The conversation with the harness, for an engine that maintains queries.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;

use crate::protocol::{Feed, Open, Reply, Request, VERSION, receive, send};

/// A query that is open.
pub trait Maintained {
    /// Reads the files of a batch.
    fn feed(&mut self, batch: Feed) -> Result<(), String>;
    /// Applies the batch that was read; returns the number of changes.
    fn apply(&mut self) -> Result<usize, String>;
    /// Returns the changes since the last call, and forgets them.
    fn changes(&mut self) -> Result<Vec<RecordBatch>, String>;
}

/// Answers requests until the harness closes the program. `open` opens a query, maintains it, and returns the reply to
/// the request that ended it.
pub fn serve(name: &str, output: &'static str, open: impl Fn(Open) -> Reply) {
    // The harness shows the last line of the standard error of a program that fails.
    std::panic::set_hook(Box::new(|panic| eprintln!("{}", panic.to_string().replace('\n', " "))));
    while let Some(request) = receive() {
        match request {
            Ok(Request::Hello { protocol }) => {
                if protocol != VERSION {
                    eprintln!("the harness speaks version {protocol} of the protocol; this program speaks {VERSION}");
                }
                send(&Reply::Hello { protocol: VERSION, name: name.into(), output, maintains: true });
            }
            Ok(Request::Open(query)) if query.workers == 0 => send(&Reply::Error { error: "no workers".into() }),
            Ok(Request::Open(query)) => send(&open(query)),
            Ok(Request::Close) => return,
            Ok(other) => send(&Reply::Error { error: format!("not a request while no query is open: {other:?}") }),
            Err(error) => send(&Reply::Error { error }),
        }
    }
}

/// Confirms that a query is open, and answers requests up to `end`.
pub fn maintain(query: &mut impl Maintained, directory: &str) {
    send(&Reply::Done {});
    let mut files = 0;
    while let Some(request) = receive() {
        let reply = request.and_then(|request| match request {
            Request::Feed(batch) => query.feed(batch).map(|()| Some(Reply::Done {})),
            Request::Apply => {
                let start = Instant::now();
                let changes = query.apply()?;
                Ok(Some(Reply::Applied { changes, seconds: start.elapsed().as_secs_f64() }))
            }
            Request::Changes => {
                files += 1;
                let file = format!("changes-{files}.arrow");
                write(&Path::new(directory).join(&file), &query.changes()?).map(|()| Some(Reply::Changes { file }))
            }
            Request::State => Ok(Some(Reply::Done {})),
            Request::End => Ok(None),
            Request::Close => std::process::exit(0),
            other => Err(format!("not a request while a query is open: {other:?}")),
        });
        match reply {
            Ok(Some(reply)) => send(&reply),
            Ok(None) => return,
            Err(error) => send(&Reply::Error { error }),
        }
    }
    std::process::exit(0);
}

fn write(path: &Path, batches: &[RecordBatch]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let file = File::create(path).map_err(|error| failed(&error))?;
    let schema = batches.first().ok_or("no changes to write")?.schema();
    let mut writer = FileWriter::try_new_buffered(file, &schema).map_err(|error| failed(&error))?;
    batches.iter().try_for_each(|batch| writer.write(batch)).map_err(|error| failed(&error))?;
    writer.finish().map_err(|error| failed(&error))
}

//! The engine: a circuit on the workers of dbsp, and the batches that it gets.

use std::path::Path;

use arrow_array::RecordBatch;
use dbsp::circuit::CircuitConfig;
use dbsp::{DBSPHandle, Runtime};

use crate::columns::read_share;
use crate::flow::Tables;
use crate::input::Source;
use crate::output::Sink;
use crate::protocol::{Feed, Open};
use crate::queries::Plan;
use crate::serve::{Maintained, maintain};
use crate::types::Time;

struct Engine<'a> {
    open: &'a Open,
    circuit: DBSPHandle,
    sources: Vec<Box<dyn Source>>,
    sink: Box<dyn Sink>,
}

/// Maintains a query until the harness ends it.
pub fn run(open: &Open, plan: Plan) -> Result<(), String> {
    let build = move |circuit: &mut _| {
        let mut tables = Tables::new(circuit);
        plan(&mut tables);
        Ok((tables.sources, tables.sink.expect("every query has an answer")))
    };
    let (circuit, (sources, sink)) =
        Runtime::init_circuit(CircuitConfig::with_workers(open.workers), build).map_err(|error| error.to_string())?;
    let mut engine = Engine { open, circuit, sources, sink };
    maintain(&mut engine, &open.directory);
    engine.circuit.kill().map_err(|_| "a worker has failed".into())
}

impl Maintained for Engine<'_> {
    fn feed(&mut self, batches: &Feed) -> Result<(), String> {
        for (relation, file) in &batches.relations {
            let path = Path::new(&self.open.directory).join(file);
            let records = read_share(&path.to_string_lossy(), 0, 1)?;
            for source in self.sources.iter_mut().filter(|source| source.relation() == relation) {
                records.iter().try_for_each(|some| source.decode(some, batches.ends()))?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, end: Time) -> Result<usize, String> {
        self.sources.iter_mut().for_each(|source| source.send(end));
        self.circuit.transaction().map_err(|error| error.to_string())?;
        Ok(self.sink.settle(end, self.open.collect))
    }

    fn changes(&mut self) -> Result<Vec<RecordBatch>, String> {
        Ok(vec![self.sink.take(&self.open.answer)?])
    }
}

//! The workers: one leads, reads the requests and answers them; the others follow its orders.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use timely::Config;
use timely::dataflow::operators::probe::Handle as Probe;
use timely::worker::Worker;

use crate::columns::read_share;
use crate::flow::Tables;
use crate::input::Source;
use crate::output::Sink;
use crate::protocol::{Feed, Open};
use crate::queries::Plan;
use crate::serve::{Maintained, maintain};
use crate::types::Time;

/// How long a follower waits for an order without giving its core away, which would cost it tens of microseconds.
const WATCH: Duration = Duration::from_millis(1);

#[derive(Clone)]
enum Order {
    /// Read the files of some batches.
    Read(Arc<Feed>),
    /// Apply the batch that was read and ends with this time.
    Apply(Time),
    /// Return the changes that were kept.
    Collect,
}

/// What the workers share.
struct Team {
    open: Open,
    plan: Plan,
    followers: Mutex<Vec<Receiver<Order>>>,
    /// The number of followers that have carried out the current order.
    finished: AtomicUsize,
    changes: AtomicUsize,
    collected: Mutex<Vec<RecordBatch>>,
    failure: Mutex<Option<String>>,
}

/// Maintains a query until the harness ends it.
pub fn run(open: Open, plan: Plan) -> Result<(), String> {
    let workers = open.workers;
    let (senders, receivers): (Vec<_>, Vec<_>) = (1..workers).map(|_| channel()).unzip();
    let team = Arc::new(Team {
        open,
        plan,
        followers: Mutex::new(receivers),
        finished: AtomicUsize::new(0),
        changes: AtomicUsize::new(0),
        collected: Mutex::default(),
        failure: Mutex::default(),
    });
    let senders = Mutex::new(Some(senders));
    let work = move |worker: &mut Worker| {
        let member = Member::new(worker, &team);
        if worker.index() == 0 {
            let followers = senders.lock().ok().and_then(|mut all| all.take()).expect("there is one leader");
            let mut leader = Leader { worker, member, team: &team, followers: &followers };
            maintain(&mut leader, &team.open.directory);
        } else {
            let orders = team.followers.lock().ok().and_then(|mut all| all.pop()).expect("one receiver a follower");
            follow(worker, member, &team, &orders);
        }
    };
    if workers == 1 {
        timely::execute_directly(work);
        return Ok(());
    }
    timely::execute(Config::process(workers), work)?.join().into_iter().collect()
}

/// The worker that leads, and its followers.
struct Leader<'a> {
    worker: &'a mut Worker,
    member: Member,
    team: &'a Team,
    followers: &'a [Sender<Order>],
}

impl Leader<'_> {
    /// Has all workers carry out an order.
    fn order(&mut self, order: &Order) -> Result<(), String> {
        self.team.finished.store(0, Ordering::Release);
        for follower in self.followers {
            follower.send(order.clone()).expect("followers live as long as their leader");
        }
        self.member.obey(self.worker, self.team, order);
        while self.team.finished.load(Ordering::Acquire) < self.followers.len() {
            std::hint::spin_loop();
        }
        self.team.failure.lock().expect("no thread panics here").take().map_or(Ok(()), Err)
    }
}

impl Maintained for Leader<'_> {
    fn feed(&mut self, batches: &Feed) -> Result<(), String> {
        self.order(&Order::Read(Arc::new(batches.clone())))
    }

    fn apply(&mut self, end: Time) -> Result<usize, String> {
        self.order(&Order::Apply(end))?;
        Ok(self.team.changes.swap(0, Ordering::AcqRel))
    }

    fn changes(&mut self) -> Result<Vec<RecordBatch>, String> {
        self.order(&Order::Collect)?;
        Ok(std::mem::take(&mut *self.team.collected.lock().expect("no thread panics here")))
    }
}

/// Carries out orders until the leader goes away.
fn follow(worker: &mut Worker, mut member: Member, team: &Team, orders: &Receiver<Order>) {
    loop {
        let Some(order) = next(orders) else { return };
        member.obey(worker, team, &order);
        team.finished.fetch_add(1, Ordering::AcqRel);
    }
}

fn next(orders: &Receiver<Order>) -> Option<Order> {
    let start = Instant::now();
    while start.elapsed() < WATCH {
        match orders.try_recv() {
            Ok(order) => return Some(order),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    orders.recv().ok()
}

/// The part of the dataflow that belongs to one worker.
struct Member {
    sources: Vec<Box<dyn Source>>,
    sink: Box<dyn Sink>,
    probe: Probe<Time>,
}

impl Member {
    fn new(worker: &mut Worker, team: &Team) -> Self {
        worker.dataflow(|scope| {
            let mut tables = Tables::new(scope);
            (team.plan)(&mut tables);
            let sink = tables.sink.expect("every query has an answer");
            Self { sources: tables.sources, sink, probe: tables.probe }
        })
    }

    fn obey(&mut self, worker: &mut Worker, team: &Team, order: &Order) {
        let done = match order {
            Order::Read(feed) => self.read(worker, team, feed),
            Order::Apply(end) => {
                let changes = self.apply(worker, *end, team.open.collect);
                team.changes.fetch_add(changes, Ordering::AcqRel);
                Ok(())
            }
            Order::Collect => self.sink.take(&team.open.answer).map(|changes| {
                team.collected.lock().expect("no thread panics here").push(changes);
            }),
        };
        if let Err(failure) = done {
            team.failure.lock().expect("no thread panics here").get_or_insert(failure);
        }
    }

    fn read(&mut self, worker: &Worker, team: &Team, feed: &Feed) -> Result<(), String> {
        for (relation, file) in &feed.relations {
            let mut readers = self.sources.iter_mut().filter(|source| source.relation() == relation).peekable();
            if readers.peek().is_none() {
                continue;
            }
            let path = Path::new(&team.open.directory).join(file);
            let batches = read_share(&path.to_string_lossy(), worker.index(), worker.peers())?;
            for source in readers {
                batches.iter().try_for_each(|batch| source.decode(batch, feed.ends()))?;
            }
        }
        Ok(())
    }

    /// Applies the batch that ends with this time; returns the number of changes on this worker.
    fn apply(&mut self, worker: &mut Worker, end: Time, keep: bool) -> usize {
        for source in &mut self.sources {
            source.send(end);
        }
        worker.step_while(|| self.probe.less_equal(&end));
        self.sink.settle(keep)
    }
}

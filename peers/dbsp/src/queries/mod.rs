//! The 22 queries of TPC-H. Each file has the circuit of one; `queries/tpch` of deltamark has their SQL.

use std::sync::Arc;

use crate::flow::Tables;
use crate::parameters::Parameters;

/// Builds the circuit of a query; every worker calls it.
pub type Plan = Arc<dyn Fn(&mut Tables) + Send + Sync>;

/// Reads the parameters of a query, and returns its plan.
pub type Query = fn(&Parameters) -> Result<Plan, String>;

/// Shares a function that builds a circuit.
fn plan(build: impl Fn(&mut Tables) + Send + Sync + 'static) -> Result<Plan, String> {
    Ok(Arc::new(build))
}

macro_rules! queries {
    ($($name:ident)+) => {
        $(mod $name;)+

        pub fn find(name: &str) -> Option<Query> {
            match name {
                $(stringify!($name) => Some($name::$name),)+
                _ => None,
            }
        }
    };
}

queries!(q01 q02 q03 q04 q05 q06 q07 q08 q09 q10 q11 q12 q13 q14 q15 q16 q17 q18 q19 q20 q21 q22);

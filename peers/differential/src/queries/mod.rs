//! The 22 queries of TPC-H. Each file has the dataflow of one; `queries/tpch` of deltamark has their SQL.

use crate::flow::Tables;
use crate::parameters::Parameters;

/// Builds the dataflow of a query; every worker calls it.
pub type Plan = Box<dyn for<'s> Fn(&mut Tables<'s>) + Send + Sync>;

/// Reads the parameters of a query, and returns its plan.
pub type Query = fn(&Parameters) -> Result<Plan, String>;

/// Boxes a function that builds a dataflow.
fn plan(build: impl for<'s> Fn(&mut Tables<'s>) + Send + Sync + 'static) -> Result<Plan, String> {
    Ok(Box::new(build))
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

"""Names that other systems use for what collections and expressions do, for the hints of errors."""

from __future__ import annotations

COLLECTION = {
    **dict.fromkeys(["filter", "query", "having"], "where(condition)"),
    **dict.fromkeys(["groupby", "group_by", "agg", "sum", "mean", "avg"], "aggregate(by=..., x=col.y.sum())"),
    **dict.fromkeys(["sort", "sort_by", "sort_values", "order_by", "limit", "head"], "top(k, ['name', '-descending'])"),
    **dict.fromkeys(["merge", "inner_join"], "join(other, on=...)"),
    **dict.fromkeys(["outer_join", "leftjoin"], "left_join(other, on=...)"),
    **dict.fromkeys(["cross_join", "product"], "cross(other)"),
    **dict.fromkeys(["semi_join"], "semijoin(other, on=...)"),
    **dict.fromkeys(["anti_join"], "antijoin(other, on=...)"),
    **dict.fromkeys(["union", "union_all", "append"], "concat(other)"),
    **dict.fromkeys(["subtract", "minus", "except_", "except_all"], "concat(other.negate())"),
    **dict.fromkeys(["unique", "drop_duplicates", "dedup"], "distinct()"),
    **dict.fromkeys(["with_columns", "with_column", "assign", "mutate", "map", "drop"], "select('kept', new=value)"),
    **dict.fromkeys(["max", "nlargest"], "largest('column', by=...)"),
    **dict.fromkeys(["min", "nsmallest"], "smallest('column', by=...)"),
    **dict.fromkeys(["columns", "dtypes"], "schema"),
    **dict.fromkeys(["collect", "compute", "execute", "to_pandas"], "Dataflow(plan), and feed it"),
}

EXPR = {
    **dict.fromkeys(["isin", "in_"], "is_in([...])"),
    **dict.fromkeys(["isnull", "isna"], "is_null()"),
    **dict.fromkeys(["fillna", "fill_null", "ifnull"], "coalesce(value)"),
    **dict.fromkeys(["startswith"], "starts_with('text')"),
    **dict.fromkeys(["alias", "name"], "select(name=expression)"),
    **dict.fromkeys(["sum"], "expression.sum()"),
    **dict.fromkeys(["mean", "avg"], "expression.mean()"),
    **dict.fromkeys(["substr", "slice"], "substring(start, length)"),
}

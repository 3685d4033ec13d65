"""The interface of the engine on Spark: `maintain` turns streaming frames into the changes of a query's answer."""

from deltamark.errors import DeltamarkError

try:
    from deltamark.dataflow.spark.maintain import maintain
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing == "deltamark":
        raise
    raise DeltamarkError("a package is missing", missing, "run: pip install 'deltamark[spark]'") from error

__all__ = ["maintain"]

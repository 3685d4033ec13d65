"""Hold: the handle of a held logical time."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import Uncopied
from deltamark.dataflow.runtime.exclusive import Exclusive
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.runtime.read_holds import HeldTime


class Hold(Uncopied):
    """A held logical time: plans can be attached as of this time, or of any later one.

    >>> with Dataflow({"sales": sales.join(shops, on="shop")}) as dataflow:
    ...     dataflow.push({"sales": batch})
    ...     hold = dataflow.hold()
    ...     hold.time
    ...     hold.release()
    0
    0
    """

    def __init__(self, live: Exclusive[LivePlans], held: HeldTime) -> None:
        self._live, self.held = live, held

    @property
    def time(self) -> int:
        """The held time, or the last one that was held."""
        return self.held.time

    def advance(self, time: int) -> None:
        """Hold a later time instead, at most the last one that was fed."""
        self._live.use(lambda live: live.advance(self.held, time))

    def release(self) -> None:
        """End the hold. Releasing again does nothing."""
        self._live.use(lambda live: live.release(self.held))

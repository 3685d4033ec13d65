"""The features of texts that an engine refuses, as learnt from the texts that it was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from support.random_plans.choices import Choices

UNKNOWN = 0.5
"""The weight of the doubt about a feature of few texts. Not tuned."""

NEW = 0.1
"""The weight of a feature without blame when the blame for a text is shared. Not tuned."""

PLACES = 1000


class Learnt:
    """Counts of the accepted and the refused texts by feature.

    An accepted text shows that the engine knows all of its features, whatever they were blamed for. The blame for a
    refused one is shared by those of its features that no accepted text had, most of it by those that were blamed most;
    if all are known, by all.
    """

    def __init__(self) -> None:
        self.accepted: Counter[str] = Counter()
        self.blamed: dict[str, float] = {}

    def learn(self, features: Collection[str], *, accepted: bool) -> None:
        if accepted:
            for each in features:
                if not self.accepted[each]:
                    self.blamed.pop(each, None)
                self.accepted[each] += 1
            return
        suspects = [each for each in features if not self.accepted[each]] or list(features)
        doubts = {each: self.blamed.get(each, 0.0) + NEW for each in suspects}
        for each, doubt in doubts.items():
            self.blamed[each] = doubt - NEW + doubt / sum(doubts.values())

    def refusal(self, feature: str) -> float:
        """Return the share of refused texts among those with a feature, from 0 to 1."""
        blamed = self.blamed.get(feature, 0.0)
        return blamed / (blamed + self.accepted[feature] + UNKNOWN)

    def avoided(self, choices: Choices) -> Iterator[str]:
        """Draw the features that a text shall not have: the more of its texts are refused, the more often."""
        for each in sorted(self.blamed):
            if choices.place(PLACES) < PLACES * self.refusal(each):
                yield each

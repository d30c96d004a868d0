"""Numbers of strangers' cases: a few, the same each day, or many in `make fuzz`."""

import os

from hypothesis import HealthCheck, settings

LONG = os.environ.get("FUZZ") == "long"  # as `make fuzz` sets it, with a seed that it prints


def fuzzed(daily: int, long: int) -> settings:
    """A decorator below `@given`: so many cases each day, and so many in `make fuzz`.

    A case may be a megabyte, or a whole page, so hypothesis is not to mind what is large or slow.
    """
    return settings(
        settings.get_profile("long" if LONG else "daily"),
        max_examples=long if LONG else daily,
    )


_ANY_CASE = dict(
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.register_profile("daily", derandomize=True, **_ANY_CASE)
settings.register_profile("long", derandomize=False, print_blob=True, **_ANY_CASE)

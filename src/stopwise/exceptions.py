"""What stopwise warns about, and the errors that are its own."""


class StopwiseWarning(UserWarning):
    """Something a careful reader of the result would want to know."""


class ExtrapolationWarning(StopwiseWarning):
    """Predictions were asked for outside the range of the training data."""


class ModelFileError(ValueError):
    """A model file that is damaged, tampered with, or made by a version this one cannot read."""


class CannotSave(TypeError):
    """A model that a file cannot hold, and what to do instead."""

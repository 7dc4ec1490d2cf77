"""Mean squared errors read off RWY14 Fig. 3 (10,000 trials there), by rule and sample size."""

from stopwise.experiments.setting import FIG3_SIZES

_READ = {
    "critical": (0.1295, 0.0736, 0.0525, 0.0428, 0.0358, 0.0320, 0.0281, 0.0249, 0.0230, 0.0215, 0.0130, 0.0096),
    "holdout": (0.0829, 0.0565, 0.0458, 0.0399, 0.0358, 0.0327, 0.0300, 0.0278, 0.0263, 0.0252, 0.0167, 0.0125),
    "sure": (0.1126, 0.0745, 0.0597, 0.0521, 0.0462, 0.0420, 0.0377, 0.0340, 0.0314, 0.0293, 0.0165, 0.0112),
    "oracle": (0.0575, 0.0396, 0.0325, 0.0283, 0.0249, 0.0228, 0.0207, 0.0188, 0.0176, 0.0166, 0.0105, 0.0076),
}

FIG3: dict[str, dict[int, float]] = {rule: dict(zip(FIG3_SIZES, values, strict=True)) for rule, values in _READ.items()}

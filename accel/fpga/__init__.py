"""What blocks cost on FPGAs: committed samples, the model fitted to them, and what devices offer."""

from accel.fpga.devices import (
    Device,
    ExternalMemory,
    Shortage,
    device_names,
    load_device,
    shortages,
    smallest_fitting,
)
from accel.fpga.features import features, model_name
from accel.fpga.model import CostModel, FamilyModel, Prediction, QuantityModel, fit_model, load_model
from accel.fpga.samples import QUANTITIES, Sample, load_samples, read_samples, sample_targets, write_samples

__all__ = [
    "QUANTITIES",
    "CostModel",
    "Device",
    "ExternalMemory",
    "FamilyModel",
    "Prediction",
    "QuantityModel",
    "Sample",
    "Shortage",
    "device_names",
    "features",
    "fit_model",
    "load_device",
    "load_model",
    "load_samples",
    "model_name",
    "read_samples",
    "sample_targets",
    "shortages",
    "smallest_fitting",
    "write_samples",
]

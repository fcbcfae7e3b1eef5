"""What blocks cost on FPGAs: committed samples, the model fitted to them, and what devices offer."""

from accel.fpga.devices import Device, ExternalMemory, device_names, load_device
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
    "device_names",
    "features",
    "fit_model",
    "load_device",
    "load_model",
    "load_samples",
    "model_name",
    "read_samples",
    "sample_targets",
    "write_samples",
]

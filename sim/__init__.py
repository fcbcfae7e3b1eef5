"""The judge: golden models, cocotb benches, comparison, reports and the end-to-end flow."""

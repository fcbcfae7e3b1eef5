"""cocotb benches; they run inside the simulator."""

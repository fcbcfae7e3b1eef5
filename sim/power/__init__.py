"""Energy of a block from the toggles of its netlist of standard cells under real numbers."""

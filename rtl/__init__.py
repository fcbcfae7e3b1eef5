"""Amaranth components and the Verilog made from them."""

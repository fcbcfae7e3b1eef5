"""Analysis of cascades, and the schedules that run them best."""

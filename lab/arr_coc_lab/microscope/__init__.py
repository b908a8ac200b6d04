"""What the laboratory adds to the microscope."""

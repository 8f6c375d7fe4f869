"""The parts that methods for vectors are made of: differences, line searches, noise, the box."""

"""The frame of every lab: its head and map, choices, charts, lessons, classes, the glossary."""

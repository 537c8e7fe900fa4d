"""Why an element has the value it has: from an output back through the instructions whose bytes flowed into it."""

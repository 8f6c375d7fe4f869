"""From records to results, once for terminal, report and page."""

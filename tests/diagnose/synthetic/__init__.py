"""Logs of jobs that never ran: 64 nodes, usual lines, noise that differs from job to job, and a fault that is known."""

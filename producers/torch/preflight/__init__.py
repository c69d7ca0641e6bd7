"""Preflight: what of a training job is known to make it unstable, told before it begins. One file a check."""

from holter.producers.torch.preflight.examination import Report, examine, preflight
from holter.producers.torch.preflight.finding import Finding
from holter.producers.torch.preflight.rehearsal import rehearse
from holter.producers.torch.preflight.subject import Subject, subject_of

__all__ = ["Finding", "Report", "Subject", "examine", "preflight", "rehearse", "subject_of"]

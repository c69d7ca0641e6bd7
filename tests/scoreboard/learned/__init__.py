"""A detector that is nothing but fitted: does it beat the one that was thought out?"""

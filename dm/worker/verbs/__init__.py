"""The work of the verbs, in the daemon; called from the API's threads.

A method marked with `does` goes from a verb's declaration to DM's JSON answer. What can be slow (reading files, talking
to servers) happens on the caller's thread; what changes state happens on the loop's. A verb that changes something
answers when the change is on disk, and, for pause and stop, when the units rest.
"""

"""The words in which hooks and those who ask them speak: frozen, standard library only.

points      where in a request's way a policy may speak
view        what of a request a policy sees, and may change
signals     how sure the model is, as a policy sees it
actions     what a policy may do
policies    what an administrator wrote
decisions   what came of it
exchange    one request's hooks, from its first point to its terminal one
webhooks    what a webhook is asked, and what it may answer
snapshots   all policies and webhooks at one moment
refusals    why something that was written is not taken
"""

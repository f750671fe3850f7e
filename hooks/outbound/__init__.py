"""What all that calls other servers has to keep to: whom it may reach, and how it signs.

Apart from those who call (webhooks here, media and alerts in inference, which may import it), because a
guard that stands in two places is mended in one. Standard library only.

addresses   lists of hosts, and which addresses behind a name may be connected to
names       the addresses behind a name
signatures  how a receiver knows that a call is ours and new
"""

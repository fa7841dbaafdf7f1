"""The pages of support staff and developers, in the frame of the stock admin.

Views here read a request, ask the modules of `proxy` and fill a template; they translate nothing.
"""

"""Tools for support staff, without pages.

    exchange_filters       the query string of the audit list → a database query, with time ranges
    exchange_pages         keyset pagination of the audit list
    failure_text           why an exchange failed, in one sentence; `proxy.errors` has the sentence
                           of each error code
    answer_parts           a stored answer in pieces, with the place where it went wrong
    replay                 decodes a stored answer again, and judges the result
    definition_trial       tries a definition on stored answers before it is saved
    override_from_exchange a format override from a replay, or from the family that `auto` read
    playground             decodes pasted text
    test_vector, curl      an exchange as test data, and as a shell command

May import `audit`, `configuration` and the packages below them.
"""

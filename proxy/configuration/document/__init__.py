"""The whole configuration as one YAML document without secrets, to be kept in git.

`export` renders the rows as a document. `import_document` reads one, all or nothing: `parse` turns
the text into a draft, `apply_draft` saves the draft's rows, and `diff` lists the changes. A dry run
is an import that is rolled back.
"""

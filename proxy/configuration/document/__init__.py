"""The whole configuration as one YAML document without secrets, to be kept in git.

export            rows → document: the fields that `schema` lists, and placeholders for secrets
import_document   document → rows, all or nothing; a dry run is rolled back
yaml_nodes        YAML text → nodes with line and column
parse             nodes → a draft of typed values; reports unknown fields and wrong types of values
                  (`apply_draft` validates them, lists of patterns included)
schema            the sections and the types of their fields, which `configuration.fields` lists
apply_draft       saves and deletes rows so that they match the draft
credentials       the secrets that a document refers to
diff              what an import changes
problems          the problems of a document, each with its position
"""

/* The structures that Python and C share, each with its fields in order: the one place in C that knows it.
 *
 * Python has the classes (`@shared`, `dm.accelerator.native`) and hands them over. They are taken only if their
 * fields are the ones below, so a field that one side has alone is an error when the class is defined.
 */
#ifndef DM_SHARED_H
#define DM_SHARED_H

/* Named tuples, read and made by place. */
#define EVENT_HEADER_FIELDS(F) F(EVENT_HEADER, timestamp) F(EVENT_HEADER, type) F(EVENT_HEADER, server_id) \
    F(EVENT_HEADER, size) F(EVENT_HEADER, end) F(EVENT_HEADER, flags)
#define CHECKED_EVENT_FIELDS(F) F(CHECKED_EVENT, header) F(CHECKED_EVENT, data)
#define ROWS_FORM_FIELDS(F) F(ROWS_FORM, kind) F(ROWS_FORM, version2) F(ROWS_FORM, compressed) F(ROWS_FORM, partial)
#define ROWS_FIELDS(F) F(ROWS, kind) F(ROWS, table_id) F(ROWS, column_count) F(ROWS, present) F(ROWS, present_after) \
    F(ROWS, data) F(ROWS, start) F(ROWS, end) F(ROWS, flags) F(ROWS, partial)
#define ROWS_ITEM_FIELDS(F) F(ROWS_ITEM, table_map) F(ROWS_ITEM, rows)
#define TABLE_MAP_EVENT_FIELDS(F) F(TABLE_MAP_EVENT, table_id) F(TABLE_MAP_EVENT, table_map)
#define STREAM_STATE_FIELDS(F) F(STREAM_STATE, trailing) F(STREAM_STATE, bodies) F(STREAM_STATE, wanted) \
    F(STREAM_STATE, maps) F(STREAM_STATE, forms) F(STREAM_STATE, sessions)
#define FOUND_ROWS_FIELDS(F) F(FOUND_ROWS, items) F(FOUND_ROWS, rows_size) F(FOUND_ROWS, size) F(FOUND_ROWS, end)
#define FOUND_TRANSACTION_FIELDS(F) F(FOUND_TRANSACTION, source) F(FOUND_TRANSACTION, number) \
    F(FOUND_TRANSACTION, server_id) F(FOUND_TRANSACTION, timestamp) F(FOUND_TRANSACTION, items) \
    F(FOUND_TRANSACTION, rows_size) F(FOUND_TRANSACTION, size) F(FOUND_TRANSACTION, length)
#define ROW_STEP_FIELDS(F) F(ROW_STEP, kind) F(ROW_STEP, width) F(ROW_STEP, digits) F(ROW_STEP, size) \
    F(ROW_STEP, function)
#define PROOF_STEP_FIELDS(F) F(PROOF_STEP, most) F(PROOF_STEP, characters) F(PROOF_STEP, text) F(PROOF_STEP, nullable) \
    F(PROOF_STEP, unread) F(PROOF_STEP, negative)
#define LITERAL_STEP_FIELDS(F) F(LITERAL_STEP, at) F(LITERAL_STEP, usual) F(LITERAL_STEP, prefix) \
    F(LITERAL_STEP, encoder)
#define DIRECT_TABLE_FIELDS(F) F(DIRECT_TABLE, table_map) F(DIRECT_TABLE, layouts) F(DIRECT_TABLE, plan) \
    F(DIRECT_TABLE, kinds) F(DIRECT_TABLE, linked) F(DIRECT_TABLE, judged) F(DIRECT_TABLE, keys) \
    F(DIRECT_TABLE, proofs)
#define KEY_SOURCE_FIELDS(F) F(KEY_SOURCE, token) F(KEY_SOURCE, parts)
#define KEY_VALUE_FIELDS(F) F(KEY_VALUE, at) F(KEY_VALUE, fold)
#define MADE_CHANGES_FIELDS(F) F(MADE_CHANGES, changes) F(MADE_CHANGES, cost) F(MADE_CHANGES, end) \
    F(MADE_CHANGES, ends)
#define ROOM_FIELDS(F) F(ROOM, counts) F(ROOM, costs) F(ROOM, cost) F(ROOM, batch) F(ROOM, full) F(ROOM, share) \
    F(ROOM, most)
#define CUT_FIELDS(F) F(CUT, size) F(CUT, start) F(CUT, sequence) F(CUT, offset) F(CUT, failure)
#define TAKEN_ROWS_FIELDS(F) F(TAKEN_ROWS, at) F(TAKEN_ROWS, rows) F(TAKEN_ROWS, size)
#define COLUMN_BUFFERS_FIELDS(F) F(COLUMN_BUFFERS, nulls) F(COLUMN_BUFFERS, valid) F(COLUMN_BUFFERS, offsets) \
    F(COLUMN_BUFFERS, values)
#define ARROW_COLUMN_FIELDS(F) F(ARROW_COLUMN, valid) F(ARROW_COLUMN, offsets) F(ARROW_COLUMN, values) \
    F(ARROW_COLUMN, first)

/* Data classes: read and filled by slot, or made by name. */
#define ROW_CHANGE_FIELDS(F) F(ROW_CHANGE, plan) F(ROW_CHANGE, kind) F(ROW_CHANGE, before) F(ROW_CHANGE, after) \
    F(ROW_CHANGE, safe) F(ROW_CHANGE, unchecked) F(ROW_CHANGE, keys) F(ROW_CHANGE, raw_before) F(ROW_CHANGE, raw_after)
#define GROUP_FIELDS(F) F(GROUP, verb) F(GROUP, plan) F(GROUP, safe) F(GROUP, changes) F(GROUP, rows) \
    F(GROUP, images) F(GROUP, size)

/* Enumerations, which count from 0; `_` is a number that none has. */
#define CHANGE_KIND_FIELDS(F) F(CHANGE_KIND, _) F(CHANGE_KIND, INSERT) F(CHANGE_KIND, UPDATE) F(CHANGE_KIND, DELETE) \
    F(CHANGE_KIND, NOTHING)
#define ROW_STEP_KIND_FIELDS(F) F(STEP, ABSENT) F(STEP, SIGNED) F(STEP, UNSIGNED) F(STEP, BIG_ENDIAN_NUMBER) \
    F(STEP, FLOAT) F(STEP, DOUBLE) F(STEP, YEAR) F(STEP, DECIMAL) F(STEP, DATE) F(STEP, DATETIME2) F(STEP, TIMESTAMP2) \
    F(STEP, TIME2) F(STEP, BYTES) F(STEP, JSON) F(STEP, UTF8) F(STEP, CALL_FIXED) F(STEP, CALL_SIZED)
#define TEXT_BYTES_FIELDS(F) F(TEXT_BYTES, ANY_BYTES) F(TEXT_BYTES, UTF8MB4) F(TEXT_BYTES, UTF8MB3) F(TEXT_BYTES, ASCII)
#define USUAL_FIELDS(F) F(USUAL, CALL) F(USUAL, INTEGER) F(USUAL, UTF8) F(USUAL, PRINTED) F(USUAL, DECIMAL) \
    F(USUAL, FLOATING) F(USUAL, DIGITS)
#define VERB_FIELDS(F) F(VERB, INSERT) F(VERB, REPLACE) F(VERB, UPDATE) F(VERB, DELETE) F(VERB, NOTHING)
#define WAY_FIELDS(F) F(WAY, SHOWN) F(WAY, ROWS) F(WAY, TABLE_MAP) F(WAY, UNUSUAL) F(WAY, WITHOUT_END)

#define STRUCTURES(S) \
    S(EVENT_HEADER, EventHeader) S(CHECKED_EVENT, CheckedEvent) S(ROWS_FORM, RowsForm) S(ROWS, Rows) \
    S(ROWS_ITEM, RowsItem) S(TABLE_MAP_EVENT, TableMapEvent) S(STREAM_STATE, StreamState) S(FOUND_ROWS, FoundRows) \
    S(FOUND_TRANSACTION, FoundTransaction) S(ROW_STEP, RowStep) S(PROOF_STEP, ProofStep) S(LITERAL_STEP, LiteralStep) \
    S(DIRECT_TABLE, DirectTable) S(KEY_SOURCE, KeySource) S(KEY_VALUE, KeyValue) S(MADE_CHANGES, MadeChanges) \
    S(ROOM, Room) S(CUT, Cut) S(TAKEN_ROWS, TakenRows) S(COLUMN_BUFFERS, ColumnBuffers) S(ARROW_COLUMN, ArrowColumn) \
    S(ROW_CHANGE, RowChange) S(GROUP, StatementGroup) S(CHANGE_KIND, ChangeKind) S(ROW_STEP_KIND, RowStepKind) S(TEXT_BYTES, TextBytes) \
    S(USUAL, Usual) S(VERB, StatementVerb) S(WAY, EventTreatment)

#define AS_PLACE(structure, field) structure##_##field,
#define AS_VALUE(structure, value) value,
#define AS_NUMBER(structure, name) structure,

/* The structures by number, and the places of the fields: ROWS_kind, ROWS_table_id .. ROWS_SIZE. */
typedef enum { STRUCTURES(AS_NUMBER) STRUCTURE_COUNT } Structure;
enum { EVENT_HEADER_FIELDS(AS_PLACE) EVENT_HEADER_SIZE };
enum { CHECKED_EVENT_FIELDS(AS_PLACE) CHECKED_EVENT_SIZE };
enum { ROWS_FORM_FIELDS(AS_PLACE) ROWS_FORM_SIZE };
enum { ROWS_FIELDS(AS_PLACE) ROWS_SIZE };
enum { ROWS_ITEM_FIELDS(AS_PLACE) ROWS_ITEM_SIZE };
enum { TABLE_MAP_EVENT_FIELDS(AS_PLACE) TABLE_MAP_EVENT_SIZE };
enum { STREAM_STATE_FIELDS(AS_PLACE) STREAM_STATE_SIZE };
enum { FOUND_ROWS_FIELDS(AS_PLACE) FOUND_ROWS_SIZE };
enum { FOUND_TRANSACTION_FIELDS(AS_PLACE) FOUND_TRANSACTION_SIZE };
enum { ROW_STEP_FIELDS(AS_PLACE) ROW_STEP_SIZE };
enum { PROOF_STEP_FIELDS(AS_PLACE) PROOF_STEP_SIZE };
enum { LITERAL_STEP_FIELDS(AS_PLACE) LITERAL_STEP_SIZE };
enum { DIRECT_TABLE_FIELDS(AS_PLACE) DIRECT_TABLE_SIZE };
enum { KEY_SOURCE_FIELDS(AS_PLACE) KEY_SOURCE_SIZE };
enum { KEY_VALUE_FIELDS(AS_PLACE) KEY_VALUE_SIZE };
enum { MADE_CHANGES_FIELDS(AS_PLACE) MADE_CHANGES_SIZE };
enum { ROOM_FIELDS(AS_PLACE) ROOM_SIZE };
enum { CUT_FIELDS(AS_PLACE) CUT_SIZE };
enum { TAKEN_ROWS_FIELDS(AS_PLACE) TAKEN_ROWS_SIZE };
enum { COLUMN_BUFFERS_FIELDS(AS_PLACE) COLUMN_BUFFERS_SIZE };
enum { ARROW_COLUMN_FIELDS(AS_PLACE) ARROW_COLUMN_SIZE };
enum { ROW_CHANGE_FIELDS(AS_PLACE) ROW_CHANGE_SIZE };
enum { GROUP_FIELDS(AS_PLACE) GROUP_SIZE };
enum { VERB_FIELDS(AS_PLACE) VERB_COUNT };
enum { WAY_FIELDS(AS_PLACE) WAY_COUNT };

#endif

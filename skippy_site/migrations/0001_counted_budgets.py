"""Token budgets are counted by the database, in the transaction that takes a record in: so there is no
moment and no crash in which records and budgets differ, and no record that counts twice."""

from django.db import migrations

# Rows of counters are locked in the order of their ids, as accounts.limits.store locks them; the lock
# on the table keeps a recount and this apart.
COUNT = """
CREATE FUNCTION skippy_count_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    added record;
BEGIN
    LOCK TABLE accounts_limitcounter IN ROW EXCLUSIVE MODE;
    FOR added IN
        SELECT c.id, u.day, u.week, u.month, sum(u.tokens)::bigint AS tokens
        FROM (
            SELECT o.scope, o.owner_id, r.num_input_tokens + r.num_output_tokens AS tokens,
                date_trunc('day', r.created_at AT TIME ZONE 'UTC')::date AS day,
                date_trunc('week', r.created_at AT TIME ZONE 'UTC')::date AS week,
                date_trunc('month', r.created_at AT TIME ZONE 'UTC')::date AS month
            FROM new_records AS r
            CROSS JOIN LATERAL (VALUES ('key', r.key_id), ('user', r.user_id), ('team', r.team_id))
                AS o (scope, owner_id)
        ) AS u
        JOIN accounts_limitcounter AS c ON c.scope = u.scope AND c.owner_id = u.owner_id
        WHERE u.tokens > 0
        GROUP BY c.id, u.day, u.week, u.month
        ORDER BY c.id, u.day
    LOOP
        UPDATE accounts_limitcounter SET
            day_tokens = CASE WHEN added.day < day_start THEN day_tokens
                WHEN added.day = day_start THEN day_tokens + added.tokens ELSE added.tokens END,
            day_start = greatest(day_start, added.day),
            week_tokens = CASE WHEN added.week < week_start THEN week_tokens
                WHEN added.week = week_start THEN week_tokens + added.tokens ELSE added.tokens END,
            week_start = greatest(week_start, added.week),
            month_tokens = CASE WHEN added.month < month_start THEN month_tokens
                WHEN added.month = month_start THEN month_tokens + added.tokens ELSE added.tokens END,
            month_start = greatest(month_start, added.month)
        WHERE id = added.id;
    END LOOP;
    RETURN NULL;
END
$$;
CREATE TRIGGER skippy_count_budgets AFTER INSERT ON inference_generationrecord
    REFERENCING NEW TABLE AS new_records
    FOR EACH STATEMENT EXECUTE FUNCTION skippy_count_budgets();
"""
UNCOUNT = """
DROP TRIGGER skippy_count_budgets ON inference_generationrecord;
DROP FUNCTION skippy_count_budgets();
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_limit_counters"), ("inference", "0001_initial")]

    operations = [migrations.RunSQL(COUNT, UNCOUNT)]

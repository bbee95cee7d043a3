"""The Spark session, chunk plans and the job runner; import it lazily, pyspark is heavy."""

"""The Spark session, executors and the job runner; import it lazily, pyspark is heavy."""

#!/bin/sh
# Puts Kafka from Maven Central below the cache directory, for the test that sends a change feed to a broker:
#   .cache/kafka/broker   the broker's jars; it needs no ZooKeeper (KRaft)
#   .cache/kafka/sink     Spark's sink for Kafka, without what Spark has itself
#
# Needs mvn. The result appears by one rename: a directory that exists is complete. The sink is the newest one that there
# is for Spark 4; it works with the Spark that dm is tested with, as the test shows.
set -eu

cache=${DM_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}
place=$cache/kafka
broker=3.9.2
sink=4.2.0

say() { printf '%s\n' "fetch_kafka: $*" >&2; }

[ ! -r "$place/VERSION" ] || { say "Kafka $(cat "$place/VERSION") is in place"; exit 0; }

mkdir -p "$cache"
work=$(mktemp -d "$cache/kafka.XXXXXX")
trap 'rm -rf "$work"' EXIT

# copy DIRECTORY GROUP:ARTIFACT:VERSION [OPTION]: what an artifact needs at run time
copy() {
    directory=$1 group=${2%%:*} version=${2##*:} artifact=${2#*:}
    shift 2
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dm</groupId><artifactId>$directory</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>$group</groupId><artifactId>${artifact%%:*}</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
POM
    mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$work/place/$directory" "$@"
}

say "downloading Kafka $broker"
copy broker "org.apache.kafka:kafka_2.13:$broker"
copy sink "org.apache.spark:spark-sql-kafka-0-10_2.13:$sink" \
    -DincludeArtifactIds=spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2
echo "$broker, sink $sink" >"$work/place/VERSION"
mv -T "$work/place" "$place" 2>/dev/null || [ -r "$place/VERSION" ] # another installation may have been faster
say "Kafka $(cat "$place/VERSION") is in place"

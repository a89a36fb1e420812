import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.jobgraph.IntermediateDataSet;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Prints the execution plan of a program, and the ids of its data sets with their producers and
 * consumers. tests/graph/programs.py has the same program.
 */
public final class PlanOf {
    public static void main(String[] arguments) {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(2);
        DataStream<Long> twice =
                env.fromSequence(1, 9)
                        .name("Numbers")
                        .setParallelism(1)
                        .map(each -> each * 2)
                        .returns(Types.LONG)
                        .name("Twice");
        DataStream<Long> sums =
                twice.keyBy(each -> each % 3).reduce((one, other) -> one + other).name("Sums");
        DataStream<Long> odd =
                twice.shuffle().filter(each -> each % 2 == 1).name("Odd").setParallelism(4);
        sums.union(odd)
                .map(each -> each)
                .returns(Types.LONG)
                .name("Both")
                .disableChaining()
                .print()
                .name("Printed");
        StringBuilder sets = new StringBuilder();
        String plan = env.getExecutionPlan();
        for (JobVertex vertex : env.getStreamGraph(false).getJobGraph().getVertices()) {
            for (IntermediateDataSet each : vertex.getProducedDataSets()) {
                sets.append(sets.length() == 0 ? "" : ", ")
                        .append(
                                String.format(
                                        "{\"id\": \"%s\", \"from\": \"%s\", \"to\": \"%s\"}",
                                        each.getId(),
                                        vertex.getName(),
                                        each.getConsumers().get(0).getTarget().getName()));
            }
        }
        System.out.println("{\"plan\": " + plan + ", \"data_sets\": [" + sets + "]}");
    }
}
